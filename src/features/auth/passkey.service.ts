import type { Context, DetachedContext, PublicContext } from '../../platform/context.ts';
import type { Db } from '../../platform/db/pool.ts';
import { type Tx, withSystem } from '../../platform/db/transaction.ts';
import { AppError, notFound } from '../../platform/errors.ts';
import type { Mailer } from '../../platform/mail.ts';
import type { Encryptor } from '../../platform/secrets/sealed.ts';
import { tokenHash } from '../../platform/secrets/tokens.ts';
import { type BreakGlassGuard, endSessionsOf, User } from '../users/index.ts';
import { MfaChallenge, StoredFactor, StoredPasskey } from './auth.model.ts';
import { type Attempt, type SecondFactor, usablePasskeys } from './mfa.service.ts';
import {
  CHALLENGE_MS,
  descriptorOf,
  type PasskeyCeremonies,
  type Presented,
  refusedPasskey,
} from './passkey-ceremonies.ts';
import type {
  Assertion,
  CreationOptions,
  NewPasskey,
  PasskeyChallenge,
  PasskeyChange,
  PasskeySignIn,
  PasskeyStart,
  PasskeyVerification,
  RequestOptions,
} from './passkey.schema.ts';
import {
  addRecoveryCodesAlone,
  newRecoveryCodeSet,
  ownProofs,
  type RecoveryCodeSet,
  wrongCode,
} from './second-factor.ts';
import { addSecondFactor, assertFreshSecondFactor, lockOpenSession } from './session.service.ts';
import type { SignInLimits } from './sign-in-limits.ts';
import { ALGORITHMS, checkRegistration, type Credential, userHandleOf } from './webauthn.ts';

/** For one person: their devices and a few keys in drawers. */
const PASSKEYS_MAX = 20;

/** A registration whose answer was checked. */
export interface Registration {
  credential: Credential;
  /** Present if the person had no second factor, and so no recovery codes. */
  fresh: RecoveryCodeSet | undefined;
}

export type Passkeys = ReturnType<typeof createPasskeys>;

export function createPasskeys({
  db,
  ceremonies,
  encryptor,
  limits: { ownSecrets, beforePasskey },
  secondFactor,
  breakGlassGuard,
  mailer,
}: {
  db: Db;
  ceremonies: PasskeyCeremonies;
  encryptor: Encryptor;
  limits: Pick<SignInLimits, 'ownSecrets' | 'beforePasskey'>;
  secondFactor: Pick<SecondFactor, 'count' | 'meetWith'>;
  breakGlassGuard: BreakGlassGuard;
  mailer: Mailer;
}) {
  const { prove, redeem } = ownProofs({ encryptor, ownSecrets });

  const ceremonyOf = (kind: 'registration' | 'step_up', { userId, sessionId }: Context['caller']) => {
    if (sessionId === null) throw refusedPasskey();
    return { kind, userId, sessionId };
  };

  return {
    list: async ({ tx, caller: { userId } }: Context) => ({
      data: await StoredPasskey.query(tx).where('user_id', userId).orderBy(['created_at', 'id']),
    }),

    /**
     * Begins a registration. A person who has a second factor must have given it lately; all others prove with the password
     * that the account is theirs, as for an authenticator app.
     */
    async beginRegistration(ctx: DetachedContext, input: PasskeyStart): Promise<CreationOptions> {
      const { userId, email, name } = ctx.caller;
      const { hasFactor, known } = await ctx.withTenant(async (within) => {
        const { mfaEnabled } = await User.query(within.tx).findById(userId).throwIfNotFound();
        if (mfaEnabled) await assertFreshSecondFactor(within);
        return {
          hasFactor: mfaEnabled,
          known: await StoredPasskey.query(within.tx).where('user_id', userId),
        };
      });
      assertRoom(known.length);
      if (!hasFactor) {
        const proof = await prove(ctx, 'no factor', { owner: input });
        await ctx.withTenant((within) => redeem(within, 'no factor', proof));
      }
      const challenge = await ceremonies.issue(ceremonyOf('registration', ctx.caller));
      return {
        challenge,
        rp: { id: ceremonies.party().id, name: 'Muster' },
        user: { id: userHandleOf(userId), name: email, displayName: name },
        pubKeyCredParams: ALGORITHMS.map((alg) => ({ alg, type: 'public-key' })),
        timeout: CHALLENGE_MS,
        attestation: 'none',
        excludeCredentials: known.map(descriptorOf),
        authenticatorSelection: {
          residentKey: 'required',
          requireResidentKey: true,
          userVerification: 'required',
        },
      };
    },

    /** Checks the answer to a registration. */
    async checkNew(ctx: DetachedContext, { credential: answer }: NewPasskey): Promise<Registration> {
      const { userId } = ctx.caller;
      await ownSecrets.take(userId);
      const ceremony = ceremonyOf('registration', ctx.caller);
      const challenge = await ceremonies.takeChallenge(answer.response.clientDataJSON, ceremony);
      if (challenge === undefined) return ceremonies.refuse(ctx, 'The challenge is not open for this.');
      const credential = await checkRegistration(answer, { challenge, party: ceremonies.party() });
      if ('fault' in credential) return ceremonies.refuse(ctx, credential.fault);
      const { credentialId } = credential;
      const isKnown = await withSystem(db, 'find out whether a passkey is registered', (tx) =>
        StoredPasskey.query(tx).findOne({ credential_id: credentialId }),
      );
      if (isKnown !== undefined) throw new AppError('conflict', 'This passkey is registered already.');
      const person = await ctx.withTenant(({ tx }) => User.query(tx).findById(userId));
      return { credential, fresh: person?.mfaEnabled === true ? undefined : await newRecoveryCodeSet() };
    },

    /** The session in which it is registered has proved it. */
    async add(ctx: Context, name: string, { credential, fresh }: Registration) {
      const { tx } = ctx;
      const person = await lockPerson(ctx);
      await lockOpenSession(ctx);
      if (person.mfaEnabled) await assertFreshSecondFactor(ctx);
      else if (fresh === undefined) {
        throw new AppError('conflict', 'Your second factor has just been removed. Try again.');
      }
      assertRoom(await StoredPasskey.query(tx).where('user_id', person.id).resultSize());
      const passkey = await StoredPasskey.query(tx).insertAndFetch({
        ...credential,
        signCount: String(credential.signCount),
        userId: person.id,
        name,
      });
      const isFirst = !person.mfaEnabled && fresh !== undefined;
      if (isFirst) {
        await addRecoveryCodesAlone(tx, encryptor, person.id, fresh);
        await person.$query(tx).patch({ mfaEnabled: true });
      }
      await addSecondFactor(ctx);
      ctx.recordChange({ mfaEnabled: !isFirst }, { mfaEnabled: true });
      await mailer.send(tx, added(person, name));
      ctx.afterCommit(() => ownSecrets.forget(person.id));
      return { passkey, recoveryCodes: isFirst ? fresh.codes : [] };
    },

    async rename(ctx: Context, id: string, { name }: PasskeyChange): Promise<StoredPasskey> {
      const passkey = await ownPasskey(ctx, id);
      ctx.recordChange({ name: passkey.name }, { name });
      return passkey.$query(ctx.tx).patchAndFetch({ name });
    },

    /**
     * Removes a passkey, for which a second factor must have been given lately. All other sessions end: one of them may have
     * been opened by whoever holds the passkey now. With the last second factor go the recovery codes.
     */
    async remove(ctx: Context, id: string) {
      const { tx } = ctx;
      const person = await lockPerson(ctx);
      const passkey = await ownPasskey(ctx, id);
      await assertFreshSecondFactor(ctx);
      await passkey.$query(tx).delete();
      const app = (await StoredFactor.query(tx).findById(person.id))?.enabledAt != null;
      const others = await StoredPasskey.query(tx).where('user_id', person.id).resultSize();
      const mfaEnabled = app || others > 0;
      if (!mfaEnabled) {
        await StoredFactor.query(tx).deleteById(person.id);
        await person.$query(tx).patch({ mfaEnabled });
        const { orgId, partnerId } = ctx.caller;
        await breakGlassGuard.assertRemains(tx, { id: person.id, orgId, partnerId });
      }
      ctx.recordChange({ mfaEnabled: true }, { mfaEnabled });
      await endSessionsOf(tx, person.id, 'passkey_removed', ctx.caller.sessionId ?? undefined);
      await mailer.send(tx, removed(person, passkey.name, mfaEnabled));
      return passkey;
    },

    /** A question for whoever wants to sign in. It names no account, and so tells nothing about any. */
    async beginSignIn(): Promise<RequestOptions> {
      return ceremonies.requestOptions(await ceremonies.issue({ kind: 'sign_in' }), [], 'required');
    },

    /** The passkey of a sign-in that names no account, and what to call when it was accepted. */
    async presentSignIn(ctx: PublicContext, { credential }: PasskeySignIn) {
      const { of, uncount } = await beforePasskey(ctx.client);
      const presented = await ceremonies.present(ctx, credential, { kind: 'sign_in' });
      await of(presented.passkey.userId);
      return { presented, uncount };
    },

    proveSignIn: (ctx: PublicContext, { credential }: PasskeySignIn, presented: Presented) =>
      ceremonies.prove(ctx, credential, presented, 'sign_in'),

    /** A question for the person whose password was correct. */
    async beginSecondFactor(ctx: PublicContext, { tempToken }: PasskeyChallenge): Promise<RequestOptions> {
      const hash = tokenHash(tempToken);
      const found = await ctx.withSystem('find the passkeys for a second factor', async (tx) => {
        const pending = await MfaChallenge.query(tx)
          .findById(hash)
          .whereNull('used_at')
          .whereRaw('expires_at > now()');
        return pending && { userId: pending.userId, passkeys: await usablePasskeys(tx, pending.userId) };
      });
      if (found === undefined) throw wrongCode();
      if (found.passkeys.length === 0) throw noPasskey();
      const challenge = await ceremonies.issue({
        kind: 'second_factor',
        userId: found.userId,
        mfaChallengeHash: hash,
      });
      return ceremonies.requestOptions(challenge, found.passkeys, 'preferred');
    },

    /** Counts an attempt as one with a code is counted. */
    countSecondFactor: (ctx: PublicContext, { tempToken }: PasskeyVerification) =>
      secondFactor.count(ctx, tempToken),

    /** Completes a sign-in; `proceed` runs in the transaction that opens the session. */
    async meet<T>(
      ctx: PublicContext,
      attempt: Attempt,
      credential: Assertion,
      proceed: (tx: Tx) => Promise<T>,
    ): Promise<T> {
      const { userId, hash: mfaChallengeHash } = attempt;
      const presented = await ceremonies.present(ctx, credential, {
        kind: 'second_factor',
        userId,
        mfaChallengeHash,
      });
      await ceremonies.prove(ctx, credential, presented, 'second_factor');
      return secondFactor.meetWith(
        ctx,
        attempt,
        async (tx) => {
          await StoredFactor.query(tx).findById(userId).patch({ tries: 0 });
          return isStillUsable(tx, presented);
        },
        proceed,
      );
    },

    async beginStepUp(ctx: DetachedContext): Promise<RequestOptions> {
      const passkeys = await ctx.withTenant(({ tx }) => usablePasskeys(tx, ctx.caller.userId));
      if (passkeys.length === 0) throw noPasskey();
      const challenge = await ceremonies.issue(ceremonyOf('step_up', ctx.caller));
      return ceremonies.requestOptions(challenge, passkeys, 'required');
    },

    async proveForStepUp(ctx: DetachedContext, { credential }: PasskeySignIn): Promise<Presented> {
      await ownSecrets.take(ctx.caller.userId);
      const presented = await ceremonies.present(ctx, credential, ceremonyOf('step_up', ctx.caller));
      await ceremonies.prove(ctx, credential, presented, 'step_up');
      return presented;
    },

    /** Makes the caller's session one that has a second factor. */
    async stepUp(ctx: Context, presented: Presented): Promise<{ sessionId: string }> {
      await lockPerson(ctx);
      if (!(await isStillUsable(ctx.tx, presented))) throw refusedPasskey();
      ctx.afterCommit(() => ownSecrets.forget(ctx.caller.userId));
      return { sessionId: await addSecondFactor(ctx) };
    },

    isStillUsable,
  };
}

const noPasskey = () => new AppError('conflict', 'This account has no passkey that can be used.');

function assertRoom(count: number): void {
  if (count < PASSKEYS_MAX) return;
  throw new AppError('conflict', `An account has at most ${PASSKEYS_MAX} passkeys. Remove one first.`);
}

/**
 * The caller, locked, behind their recovery codes: in the order in which a code is used. Two changes of one person's factors
 * do not run at once.
 */
async function lockPerson({ tx, caller: { userId } }: Context): Promise<User> {
  await StoredFactor.query(tx).findById(userId).forUpdate();
  const person = await User.query(tx).where({ id: userId, status: 'active' }).forUpdate().first();
  if (person === undefined) throw notFound('User');
  return person;
}

async function ownPasskey({ tx, caller: { userId } }: Context, id: string): Promise<StoredPasskey> {
  const passkey = await StoredPasskey.query(tx).findOne({ id, user_id: userId });
  if (passkey === undefined) throw notFound('Passkey');
  return passkey;
}

/** In the transaction that opens something: the passkey stays as it is until that is committed. */
async function isStillUsable(tx: Tx, { passkey: { id } }: Presented): Promise<boolean> {
  const passkey = await StoredPasskey.query(tx).findById(id).whereNull('suspect_at').forShare();
  return passkey !== undefined;
}

const added = ({ email, name }: User, passkey: string) => ({
  to: email,
  subject: 'A passkey was added to your Muster account',
  text: [
    `Hello ${name},`,
    `The passkey "${passkey}" has just been added to your Muster account. It signs you in without a password.`,
    'If you did not add it, remove it in your profile, change your password, and tell your administrator.',
  ].join('\n\n'),
});

const removed = ({ email, name }: User, passkey: string, hasFactor: boolean) => ({
  to: email,
  subject: 'A passkey was removed from your Muster account',
  text: [
    `Hello ${name},`,
    `The passkey "${passkey}" has just been removed from your Muster account, and your other sessions have ended.`,
    ...(hasFactor ? [] : ['Your account has no second factor any more.']),
    'If you did not remove it, change your password, and tell your administrator.',
  ].join('\n\n'),
});
