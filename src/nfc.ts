/** A run of marks that no language has. Sorting one takes time that grows with the square of its length. */
const TOO_MANY_MARKS = /\p{M}{31}/u;

/**
 * Text in Unicode's form NFC, in which people's names and what is searched in them are stored and compared: `é` is one
 * character, whichever keyboard or file system it comes from (docs/decisions/text-from-others.md). A text with more
 * than 30 marks in a row stays as it is.
 */
export const inNfc = (text: string): string => (TOO_MANY_MARKS.test(text) ? text : text.normalize('NFC'));
