import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { gunzipSync, gzipSync } from 'node:zlib';
import type { TerminalRecordingPart } from '../../hub/ports.ts';

/**
 * Recordings in the format asciicast v2 (https://docs.asciinema.org/manual/asciicast/v2/): a line of JSON for the whole,
 * and one for each event with its time in seconds, its kind and its text. Each recording has a key of its own, which is
 * stored sealed; its parts are compressed and encrypted with that. Pure.
 */

export const castHeader = ({ cols, rows, openedAt, title }: CastFacts): string =>
  `${JSON.stringify({
    version: 2,
    width: cols,
    height: rows,
    timestamp: Math.floor(openedAt.getTime() / 1000),
    title,
    env: { TERM: 'xterm-256color' },
  })}\n`;

interface CastFacts {
  cols: number;
  rows: number;
  openedAt: Date;
  title: string;
}

/** @param openedAt  in milliseconds */
export const castEvents = ({ events }: TerminalRecordingPart, openedAt: number): string =>
  events
    .map(({ at, code, text }) => `${JSON.stringify([Math.max(0, at - openedAt) / 1000, code, text])}\n`)
    .join('');

const ALGORITHM = 'aes-256-gcm';
const IV_BYTES = 12;
const TAG_BYTES = 16;

export const newRecordingKey = (): string => randomBytes(32).toString('base64url');

/** The part is bound to its terminal: it opens in no other recording. */
export function sealPart(key: string, terminalId: string, lines: string): Buffer {
  const iv = randomBytes(IV_BYTES);
  const cipher = createCipheriv(ALGORITHM, Buffer.from(key, 'base64url'), iv, { authTagLength: TAG_BYTES });
  cipher.setAAD(Buffer.from(terminalId));
  return Buffer.concat([iv, cipher.update(gzipSync(lines)), cipher.final(), cipher.getAuthTag()]);
}

/** Throws if the part was changed, or belongs to another recording. */
export function openPart(key: string, terminalId: string, sealed: Buffer): string {
  const iv = sealed.subarray(0, IV_BYTES);
  const decipher = createDecipheriv(ALGORITHM, Buffer.from(key, 'base64url'), iv, {
    authTagLength: TAG_BYTES,
  });
  decipher.setAAD(Buffer.from(terminalId));
  decipher.setAuthTag(sealed.subarray(-TAG_BYTES));
  const packed = Buffer.concat([decipher.update(sealed.subarray(IV_BYTES, -TAG_BYTES)), decipher.final()]);
  return gunzipSync(packed).toString('utf8');
}
