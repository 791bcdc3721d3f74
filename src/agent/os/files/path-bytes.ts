import { canonicalPath, pathBytes, pathText } from '../../../protocol/index.ts';

/**
 * Names of this machine and their texts (`pathText`). On Windows, and there only, names are characters: a backslash parts
 * them, and nothing is escaped.
 */

const isOfCharacters = process.platform === 'win32';

export const nameText = (name: Uint8Array): string =>
  isOfCharacters ? Buffer.from(name).toString('utf8') : pathText(name);

export const nameBytes = (text: string): Buffer => Buffer.from(isOfCharacters ? text : pathBytes(text));

/** The same text for every way to write a path. */
export const oneText = (text: string): string => (isOfCharacters ? text : canonicalPath(text));
