import { domainToUnicode } from 'node:url';
import { isStorableText } from '../../../protocol/index.ts';
import { asciiDomain } from '../domains/domain-name.ts';

/** Reads the values that identity providers send: texts with blanks around them, numbers, lists, and addresses. Pure. */

const MAX_LENGTH = 255;

/**
 * The texts of a claim or an attribute, without the blanks around them: of a text, of a number, or of the entries of a
 * list. Values that are empty, too long, or cannot be stored are left out.
 */
export function assertedTexts(value: unknown): string[] {
  return (Array.isArray(value) ? value : [value]).flatMap((entry) => {
    if (typeof entry !== 'string' && !Number.isFinite(entry)) return [];
    const text = String(entry).trim().normalize('NFC');
    return text === '' || text.length > MAX_LENGTH || !isStorableText(text) ? [] : [text];
  });
}

/** The first of the values that has the form of a mail address. */
export const firstAddress = (values: readonly string[]): string | undefined =>
  values.find((value) => emailDomain(value) !== undefined);

const ADDRESS = /^([^\s@]+)@([^\s@]+)$/;

/** The domain of an address in lower case and ASCII. Undefined if the text is no address. */
export const emailDomain = (email: string): string | undefined => asciiDomain(ADDRESS.exec(email)?.[2] ?? '');

/** Whether two texts are the same address: capitalization and the written form of the domain do not matter. */
export const isSameAddress = (a: string, b: string): boolean =>
  addressForms(a).some((form) => addressForms(b).includes(form));

/**
 * The forms, in lower case, in which an account may have an address: an internationalized domain has an ASCII form
 * (`xn--…`) and one for people.
 */
export function addressForms(email: string): string[] {
  const written = email.normalize('NFC').toLowerCase();
  const [, local, domain] = ADDRESS.exec(written) ?? [];
  const ascii = asciiDomain(domain ?? '');
  if (local === undefined || ascii === undefined) return [written];
  return [...new Set([written, `${local}@${ascii}`, `${local}@${domainToUnicode(ascii)}`])];
}
