import { randomInt } from 'node:crypto';
import { Secret, TOTP } from 'otpauth';
import { clock } from '../../../clock.ts';

/** Codes of the second factor: those of an authenticator app (RFC 6238), and recovery codes. Pure. */

const PERIOD_SECONDS = 30;
/** Clocks differ, so the previous and the next step are accepted as well. */
const WINDOW = 1;

export const newTotpSecret = (): string => new Secret({ size: 20 }).base32;

export function otpAuthUrl(secret: string, label: string): string {
  return new TOTP({ issuer: 'Muster', label, secret: Secret.fromBase32(secret) }).toString();
}

/** The time step whose code this is, or `undefined` for a wrong one. */
export function stepOf(secret: string, code: string, at: number = clock.now()): number | undefined {
  const delta = TOTP.validate({
    token: code,
    secret: Secret.fromBase32(secret),
    period: PERIOD_SECONDS,
    timestamp: at,
    window: WINDOW,
  });
  return delta === null ? undefined : TOTP.counter({ period: PERIOD_SECONDS, timestamp: at }) + delta;
}

export const isTotpCode = (code: string): boolean => /^\d{6}$/.test(code);

/** 32 characters that are easy to tell apart. */
const ALPHABET = '23456789ABCDEFGHJKLMNPQRSTUVWXYZ';
const RECOVERY_CODES = 10;

export function newRecoveryCodes(): string[] {
  const codes = new Set<string>();
  while (codes.size < RECOVERY_CODES) {
    const text = Array.from({ length: 8 }, () => ALPHABET[randomInt(ALPHABET.length)]).join('');
    codes.add(`${text.slice(0, 4)}-${text.slice(4)}`);
  }
  return [...codes];
}

/** A recovery code in its original form, however it was typed; `undefined` for anything else. */
export function recoveryCodeFrom(typed: string): string | undefined {
  const text = typed.toUpperCase().replaceAll(/[\s-]/g, '');
  return new RegExp(`^[${ALPHABET}]{8}$`).test(text) ? `${text.slice(0, 4)}-${text.slice(4)}` : undefined;
}
