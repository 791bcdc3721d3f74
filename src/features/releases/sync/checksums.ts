/** The file that lists the SHA-256 of all files of a release, as `sha256sum` writes it. */
export const CHECKSUMS = 'SHA256SUMS';

/** Hash, then two blanks, or a blank and an asterisk for a file that was read in binary mode. */
const LINE = /^([0-9a-f]{64}) [ *](?:\.\/)?(\S+)$/i;

export type Checksum = { sha256: string } | 'ambiguous';

/**
 * Reads such a list. A line of another form is ignored, so that its file counts as not listed. A name that stands there
 * twice is ambiguous, also with the same hash.
 */
export function parseChecksums(text: string): ReadonlyMap<string, Checksum> {
  const found = new Map<string, Checksum>();
  for (const line of text.replace(/^\uFEFF/, '').split(/\r?\n/)) {
    const [, sha256, name] = LINE.exec(line.trimEnd()) ?? [];
    if (sha256 === undefined || name === undefined) continue;
    found.set(name, found.has(name) ? 'ambiguous' : { sha256: sha256.toLowerCase() });
  }
  return found;
}
