import { createHmac, hkdfSync, timingSafeEqual } from 'node:crypto';
import type { SecretKeys } from './sealed.ts';

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
