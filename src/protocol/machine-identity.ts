import { z } from 'zod';
import { cutLine } from './primitives.ts';

/** The facts that identify a machine, and the values of them that many machines share. */

const MACS_MAX = 32;

export const HostName = cutLine(255).describe('The name of the machine, as its system has it now.');

/** A hardware address in lower case with colons, however its system writes it: `AA-BB-CC-0-11-22`, `aabb.cc00.1122`. */
export const HardwareAddress = cutLine(64).overwrite((text) => {
  const parts = text.toLowerCase().split(/[:. -]+/);
  if (!parts.every((part) => /^[0-9a-f]+$/.test(part))) return text.toLowerCase();
  if (parts.length >= 6 && parts.every((part) => part.length <= 2)) {
    return parts.map((part) => part.padStart(2, '0')).join(':');
  }
  const pairs = parts.join('').match(/../g) ?? [];
  return pairs.length === 6 && parts.join('').length === 12 ? pairs.join(':') : text.toLowerCase();
});

/** The facts that an agent reports about its machine with each connection. Unknown facts may be absent. */
export const MachineIdentity = z
  .object({
    hostname: HostName,
    serialNumber: cutLine(255).describe('The serial number that the firmware reports.'),
    macAddresses: z
      .array(HardwareAddress)
      .overwrite((addresses) => tidyAddresses(addresses))
      .describe(`The hardware addresses of its interfaces. The first ${MACS_MAX} are kept.`),
  })
  .partial();
export type MachineIdentity = z.infer<typeof MachineIdentity>;

/** Invalid addresses are removed, each is listed once and in order. */
function tidyAddresses(tidy: readonly string[]): string[] {
  const real = tidy.filter((address) => address !== '' && !/^[0:]+$/.test(address));
  return [...new Set(real)].sort().slice(0, MACS_MAX);
}

/** Placeholders that firmware reports if its maker has entered no value. */
const PLACEHOLDER =
  /^(0+|0?1?23456789?0?(abcdef)?|n\/?a|none( provided)?|null|nil|empty|unknown|default( string)?|standard|not (applicable|available|specified|present|settable|set)|invalid|oem|o\.e\.m\.|to be filled( by o\.e\.m\.?)?|(system|base ?board|board|chassis|product) ?(manufacturer|product name|name|serial( ?number)?|version|asset tag)|(base|chassis|type\s?\d).*serial number|type1.*|ser(ial|num)?( ?number| ?no\.?)?|s\/n|bsn1234.*|undefined|uninitialized|[-.*#/\\ ]+|x+|f+)$/i;

/** A value that firmware reports, trimmed, or `undefined` if it is a placeholder. */
export function firmwareValue(text: string | null | undefined): string | undefined {
  const value = text?.replaceAll('\0', '').trim() ?? '';
  return value === '' || value === '(none)' || PLACEHOLDER.test(value) ? undefined : value;
}

/** A normalized serial number that identifies the machine; `undefined` if it is not unique to one. */
export function tellingSerial(serial: string | null | undefined): string | undefined {
  const value = firmwareValue(serial)?.toUpperCase();
  if (value === undefined || isSharedId(value)) return undefined;
  return value;
}

/** Ids that boards, images and hypervisors give to many machines, as their hexadecimal digits. */
export const SHARED_IDS: readonly string[] = [
  '03000200-0400-0500-0006-000700080009',
  // The same in the byte order of Windows.
  '00020003-0004-0005-0006-000700080009',
  '03020100-0504-0706-0809-0a0b0c0d0e0f',
  '00010203-0405-0607-0809-0a0b0c0d0e0f',
  '12345678-1234-5678-90ab-cddeefaabbcc',
  '78563412-3412-7856-90ab-cddeefaabbcc',
  '12345678-1234-1234-1234-123456789abc',
  '12345678-1234-1234-1234-123456789012',
  '11111111-2222-3333-4444-555555555555',
  '01234567-8901-2345-6789-012345678901',
  '01234567-89ab-cdef-0123-456789abcdef',
  // Dell without a service tag.
  '4c4c4544-0000-2010-8020-80c04f202020',
  '44454c4c-0000-1020-8020-80c04f202020',
  '00112233-4455-6677-8899-aabbccddeeff',
  '33221100-5544-7766-8899-aabbccddeeff',
  '49434d53-0200-9033-2500-33902500a4b1',
];

const lettersOf = (id: string) => id.toLowerCase().replaceAll(/[^0-9a-z]/g, '');
const SHARED = new Set(SHARED_IDS.map(lettersOf));

/**
 * Whether many machines share the id: a placeholder, an id of `SHARED_IDS`, or one with only a few different digits,
 * such as all zeros. Ids of machines are random, so a real id never looks like that.
 */
export function isSharedId(id: string): boolean {
  const letters = lettersOf(id);
  if (letters === '' || SHARED.has(letters) || firmwareValue(id) === undefined) return true;
  return letters.length >= 8 && new Set(letters).size <= 2;
}
