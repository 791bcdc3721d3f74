import { randomInt, timingSafeEqual } from 'node:crypto';
import { clock, HOUR_MS } from '../../clock.ts';
import { addressKey } from '../../email-address.ts';
import type { RateLimiter, RateLimits } from '../../platform/cluster/rate-limits.ts';
import type { Context } from '../../platform/context.ts';
import { AppError, noFields } from '../../platform/errors.ts';
import type { Mail, Mailer } from '../../platform/mail.ts';
import { omitUndefined } from '../../platform/omit-undefined.ts';
import { tokenHash } from '../../platform/secrets/tokens.ts';
import { NotificationSettings } from './notification.model.ts';
import {
  ADDRESS_CODE,
  type AddressCode,
  type NotificationSettings as Settings,
  type NotificationSettingsPatch,
} from './notification.schema.ts';

/** What a person wants to be told, and where. An address of their own choice counts once they have shown that they read it. */

export interface AddressCodeLimits {
  /** Mails that a person causes, and mails to one mailbox, which may be that of a stranger. */
  mailsOf: Pick<RateLimiter, 'take'>;
  mailsTo: Pick<RateLimiter, 'take'>;
  guessesOf: Pick<RateLimiter, 'take'>;
}

export const addressCodeLimits = (limits: RateLimits): AddressCodeLimits => ({
  mailsOf: limits.limiter('notification-address-mails-of', { points: 10, seconds: 3600 }),
  mailsTo: limits.limiter('notification-address-mails-to', { points: 3, seconds: 3600 }),
  guessesOf: limits.limiter('notification-address-guesses', { points: 10, seconds: 3600 }),
});

export interface OwnSettingsParts {
  addressCodeLimits: AddressCodeLimits;
  mailer: Mailer;
}

const DEFAULTS: Settings = {
  address: null,
  addressVerified: false,
  phone: null,
  quietHours: null,
  criticalBreaksQuietHours: true,
  severities: null,
};

export async function readOwnSettings({ tx, caller }: Pick<Context, 'tx' | 'caller'>): Promise<Settings> {
  const stored = await NotificationSettings.query(tx).findById(caller.userId);
  return stored === undefined ? DEFAULTS : toSettings(stored);
}

function toSettings({
  address,
  verifiedAddress,
  phone,
  quietHours,
  criticalBreaksQuietHours,
  severities,
}: NotificationSettings): Settings {
  const addressVerified = address !== null && address === verifiedAddress;
  return { address, addressVerified, phone, quietHours, criticalBreaksQuietHours, severities };
}

/** Mails a code to an address that is new. */
export async function changeOwnSettings(
  ctx: Context,
  patch: NotificationSettingsPatch,
  parts: OwnSettingsParts,
): Promise<Settings> {
  const changes = omitUndefined(patch);
  if (Object.keys(changes).length === 0) throw noFields();
  const { addressVerified: wasVerified, ...before } = await readOwnSettings(ctx);
  // Fields that were not sent are not written, so that a concurrent change of them is kept.
  await NotificationSettings.query(ctx.tx)
    .insert({ userId: ctx.caller.userId, ...before, ...changes, updatedAt: clock.date() })
    .onConflict('user_id')
    .merge({ ...changes, updatedAt: clock.date() });
  const { addressVerified, ...after } = await readOwnSettings(ctx);
  if (after.address !== null && after.address !== before.address && !addressVerified) {
    await mailCode(ctx, after.address, parts);
  }
  ctx.recordChange({ ...before, addressVerified: wasVerified }, { ...after, addressVerified });
  return { ...after, addressVerified };
}

/** Mails a further code; the one before it counts no more. */
export async function mailAddressCode(ctx: Context, parts: OwnSettingsParts): Promise<Settings> {
  const settings = await readOwnSettings(ctx);
  if (settings.address === null) throw noAddress();
  if (settings.addressVerified) throw new AppError('conflict', 'Your address is verified already.');
  await mailCode(ctx, settings.address, parts);
  return settings;
}

/** Verifies the address with the code that was mailed to it. The caller limits the guesses. */
export async function verifyOwnAddress(ctx: Context, { code }: AddressCode): Promise<Settings> {
  const { userId } = ctx.caller;
  const stored = await NotificationSettings.query(ctx.tx).findById(userId).forUpdate();
  if (stored === undefined || stored.address === null) throw noAddress();
  const { address, addressCodeHash, addressCodeEndsAt } = stored;
  const isInTime = addressCodeEndsAt !== null && addressCodeEndsAt.getTime() > clock.now();
  if (addressCodeHash === null || !isInTime || !isSame(codeHash(userId, address, code), addressCodeHash)) {
    const message = 'This is not the newest code that was mailed to the address, or it is older than a day.';
    throw new AppError('validation_failed', message, { details: [{ path: 'body.code', message }] });
  }
  const verified = { verifiedAddress: address, addressCodeHash: null, addressCodeEndsAt: null };
  await NotificationSettings.query(ctx.tx).findById(userId).patch(verified);
  ctx.recordChange({ addressVerified: false }, { addressVerified: true });
  return { ...toSettings(stored), addressVerified: true };
}

const noAddress = () => new AppError('conflict', 'You have named no address of your own.');

async function mailCode(
  { tx, caller: { userId } }: Context,
  address: string,
  { addressCodeLimits: { mailsOf, mailsTo }, mailer }: OwnSettingsParts,
): Promise<void> {
  await mailsOf.take(userId);
  await mailsTo.take(addressKey(address));
  const code = String(randomInt(10 ** ADDRESS_CODE.digits)).padStart(ADDRESS_CODE.digits, '0');
  await NotificationSettings.query(tx)
    .findById(userId)
    .patch({
      addressCodeHash: codeHash(userId, address, code),
      addressCodeEndsAt: new Date(clock.now() + ADDRESS_CODE.hours * HOUR_MS),
    });
  await mailer.send(tx, codeMail(address, code));
}

/** Of the address as well: a code is of no use for an address that was named later. */
const codeHash = (userId: string, address: string, code: string): string =>
  tokenHash(`${userId} ${addressKey(address)} ${code}`);

const isSame = (one: string, other: string): boolean =>
  one.length === other.length && timingSafeEqual(Buffer.from(one), Buffer.from(other));

/** It contains nothing chosen by the person who named the address, who may be a stranger to its owner. */
const codeMail = (to: string, code: string): Mail => ({
  to,
  subject: 'Your code for alerts of Muster',
  text: [
    'A user of Muster wants to be told about alerts at this address. If it was you, enter this code in your profile:',
    `${code.slice(0, ADDRESS_CODE.digits / 2)} ${code.slice(ADDRESS_CODE.digits / 2)}`,
    `It counts for ${ADDRESS_CODE.hours} hours.`,
    'If it was not you, ignore this mail: without the code no alerts are sent here.',
  ].join('\n\n'),
});
