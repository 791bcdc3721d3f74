import { domainToASCII, domainToUnicode } from 'node:url';
import { z } from 'zod';
import { inNfc } from './nfc.ts';

/**
 * E-mail addresses, which may be internationalized: `jürgen@example.com`, `user@münchen.de`. The one place that knows
 * their forms (docs/decisions/text-from-others.md). Pure.
 */

const MAX_LENGTH = 255;

/**
 * An address of a person in a request, as the form in which it is stored: the local part as it was written, in NFC; an
 * internationalized domain in Unicode; any other domain as it was written.
 */
export const EmailAddress = z
  .string()
  .overwrite(addressForm)
  .max(MAX_LENGTH)
  .refine(isAddress, { error: ({ input }) => addressFault(String(input)) })
  .meta({ format: 'idn-email' });

/**
 * The form in which an address is stored, so that each address has one, apart from the capitalization of letters, which
 * the database ignores. A text that is no address stays as it is.
 */
export function addressForm(address: string): string {
  const [local, domain] = partsOf(address) ?? [];
  const ascii = asciiDomain(domain ?? '');
  if (local === undefined || domain === undefined || ascii === undefined) return address;
  const isOrdinary = ascii === domain.toLowerCase() && !/(^|\.)xn--/.test(ascii);
  return `${local}@${isOrdinary ? domain : domainToUnicode(ascii)}`;
}

/** Two addresses are the same if their keys are: capitalization and the form of the domain do not matter. */
export const addressKey = (address: string): string =>
  // Each letter alone, as in Postgres: JavaScript has another small sigma for the end of a word.
  addressForm(address).replaceAll('Σ', 'σ').toLowerCase();

/**
 * The forms in which an account may have an address, for a comparison that ignores capitalization. Accounts that are
 * older than the one form may have the domain in ASCII.
 */
export function addressForms(address: string): string[] {
  const form = addressForm(address);
  const [local, domain] = partsOf(form) ?? [];
  const ascii = asciiDomain(domain ?? '');
  return local === undefined || ascii === undefined ? [form] : [...new Set([form, `${local}@${ascii}`])];
}

/** The domain of an address in lower case and ASCII. Undefined if the text is no address. */
export const emailDomain = (address: string): string | undefined => asciiDomain(partsOf(address)?.[1] ?? '');

/** Labels of letters, digits and inner hyphens (RFC 1123), in lower case. */
const ASCII_NAME = /^(?=.{1,253}$)[a-z\d]([a-z\d-]{0,61}[a-z\d])?(\.[a-z\d]([a-z\d-]{0,61}[a-z\d])?)*$/;
/**
 * ASCII characters that no domain name has. `domainToASCII` would accept some: it reads the host of a URL, so it stops
 * at a slash and decodes `%41`.
 */
const FOREIGN_ASCII = /[\0-,/:-@[-`{-\x7f]/;

/**
 * Converts a domain name, which may be internationalized, to lower-case ASCII. Undefined if the text is no domain name.
 */
export function asciiDomain(text: string): string | undefined {
  if (text.length > 253 || FOREIGN_ASCII.test(text.toLowerCase())) return undefined;
  const ascii = domainToASCII(text);
  // Some names with `xn--` decode to a name that has another ASCII form. They belong to no domain.
  return ASCII_NAME.test(ascii) && domainToASCII(domainToUnicode(ascii)) === ascii ? ascii : undefined;
}

/** Blanks, control characters, halves of surrogate pairs, and characters that are not seen or turn the direction. */
const UNSEEN = /[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}]/u;
const ADDRESS = /^([^@]+)@([^@]+)$/;

/** The local part in NFC, and the domain as it was written. Undefined if the text does not have the form of an address. */
function partsOf(text: string): [local: string, domain: string] | undefined {
  if (UNSEEN.test(text)) return undefined;
  const [, local, domain] = ADDRESS.exec(text) ?? [];
  if (local === undefined || domain === undefined) return undefined;
  // The database makes an i of the capital İ, which would be the address of another person.
  return [inNfc(local).replaceAll('İ', 'i\u0307'), domain];
}

/**
 * Letters, marks and digits of all scripts, and the signs that mail servers commonly accept. More marks in a row than NFC
 * is made of would leave an address with several forms.
 */
const LOCAL = /^(?![.\p{M}])(?!.*\.\.)(?!.*\p{M}{31})[\w'+.\-\p{L}\p{M}\p{N}]*[\w+\-\p{L}\p{M}\p{N}]$/u;
const TOP_LABEL = /\.(?:[a-z]{2,}|xn--[a-z\d-]+)$/;

function isAddress(text: string): boolean {
  const [local, domain] = partsOf(text) ?? [];
  return local !== undefined && LOCAL.test(local) && TOP_LABEL.test((domain && asciiDomain(domain)) ?? '');
}

const addressFault = (text: string): string =>
  UNSEEN.test(text)
    ? 'must be an e-mail address, without blanks, control characters or invisible characters'
    : 'must be an e-mail address, such as admin@example.com';
