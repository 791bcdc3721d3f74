import { addressForm, emailDomain } from '../../../email-address.ts';
import { inNfc } from '../../../nfc.ts';
import { isStorableText } from '../../../protocol/index.ts';

/** Reads the values that identity providers send: texts with blanks around them, numbers, lists, and addresses. Pure. */

const MAX_LENGTH = 255;

/**
 * The texts of a claim or an attribute, without the blanks around them: of a text, of a number, or of the entries of a
 * list. Values that are empty, too long, or cannot be stored are left out.
 */
export function assertedTexts(value: unknown): string[] {
  return (Array.isArray(value) ? value : [value]).flatMap((entry) => {
    if (typeof entry !== 'string' && !Number.isFinite(entry)) return [];
    const text = inNfc(String(entry).trim());
    return text === '' || text.length > MAX_LENGTH || !isStorableText(text) ? [] : [text];
  });
}

/** The first of the values that is a mail address, in the form in which it is stored. */
export function firstAddress(values: readonly string[]): string | undefined {
  const address = values.find((value) => emailDomain(value) !== undefined);
  return address && addressForm(address);
}
