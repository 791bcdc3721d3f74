import { createHash, randomInt, createHmac, hkdfSync, timingSafeEqual } from 'node:crypto';
import { crc32 } from 'node:zlib';
import type { SecretKeys } from './sealed.ts';

/**
 * Tokens that a program carries: a prefix that says what it opens, 40 random base62 characters (238 bits) and a
 * checksum, so that a mistyped one is refused without asking the database. Only the SHA-256 is stored: with that much
 * randomness a slow hash would protect nothing.
 */
const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const RANDOM_LENGTH = 40;
const CHECKSUM_LENGTH = 6;

export const TOKEN_PREFIX = {
  agent: 'magt_',
  enrollmentKey: 'menr_',
  apiKey: 'mstr_',
  backupStore: 'mbak_',
  recovery: 'mrec_',
  recoverySession: 'mrcs_',
} as const;
export type TokenKind = keyof typeof TOKEN_PREFIX;

export function newToken(kind: TokenKind): string {
  let body = '';
  for (let i = 0; i < RANDOM_LENGTH; i++) body += ALPHABET[randomInt(ALPHABET.length)];
  return TOKEN_PREFIX[kind] + body + checksum(body);
}

/** Whether the text has the form and checksum of such a token. Says nothing about whether it is known. */
export function isWellFormed(kind: TokenKind, token: string): boolean {
  const prefix = TOKEN_PREFIX[kind];
  if (!token.startsWith(prefix) || token.length !== prefix.length + RANDOM_LENGTH + CHECKSUM_LENGTH) {
    return false;
  }
  const body = token.slice(prefix.length, prefix.length + RANDOM_LENGTH);
  return /^[0-9A-Za-z]+$/.test(body) && token.endsWith(checksum(body));
}

/** The hash that is stored and looked up: 64 hexadecimal digits. */
export function tokenHash(token: string): string {
  return createHash('sha256').update(token).digest('hex');
}

function checksum(body: string): string {
  let value = crc32(body);
  let text = '';
  for (let i = 0; i < CHECKSUM_LENGTH; i++) {
    text = ALPHABET[value % ALPHABET.length] + text;
    value = Math.floor(value / ALPHABET.length);
  }
  return text;
}

/** Signs texts that the server gets back from outside, such as in a cookie. */
export interface Mac {
  /** HMAC-SHA256 in base64url. */
  sign(text: string): string;
  /** In constant time. A signature by an old key counts as well. */
  isSignatureOf(text: string, signature: string): boolean;
}

/** @param purpose  its signatures are worth nothing for any other purpose */
export function createMac({ current, old }: SecretKeys, purpose: string): Mac {
  const [key, ...oldKeys] = [current, ...old].map((secret) =>
    Buffer.from(hkdfSync('sha256', secret, '', purpose, 32)),
  );
  const signedWith = (secret: Buffer, text: string) => createHmac('sha256', secret).update(text).digest();
  if (key === undefined) throw new Error('There is no key.');
  return {
    sign: (text) => signedWith(key, text).toString('base64url'),
    isSignatureOf(text, signature) {
      const given = Buffer.from(signature, 'base64url');
      return [key, ...oldKeys].some((secret) => {
        const expected = signedWith(secret, text);
        return given.length === expected.length && timingSafeEqual(given, expected);
      });
    },
  };
}
