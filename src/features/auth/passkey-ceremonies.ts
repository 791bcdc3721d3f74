// The questions to authenticators, and what their answers open. A challenge is deleted by the first answer to it, in a
// transaction of its own, whether or not the answer is right. What is recorded of an answer is committed before anything is
// opened, so that a count of signatures that has gone back stays recorded although the request is refused.
import { randomBytes } from 'node:crypto';
import { raw } from 'objection';
import type { ClientInfo } from '../../platform/context.ts';
import type { Db } from '../../platform/db/pool.ts';
import { type Tx, withSystem } from '../../platform/db/transaction.ts';
import { AppError } from '../../platform/errors.ts';
import type { Logger } from '../../platform/logger.ts';
import type { Mailer } from '../../platform/mail.ts';
import { tokenHash } from '../../platform/secrets/tokens.ts';
import { endSessionsOf, User } from '../users/index.ts';
import { PasskeyChallenge, StoredPasskey } from './auth.model.ts';
import { removeExpiredChallenges } from './auth.queries.ts';
import type { Assertion, RequestOptions } from './passkey.schema.ts';
import type { SignInTrail } from './sign-in-trail.ts';
import {
  challengeIn,
  checkAssertion,
  isCountBack,
  relyingPartyOf,
  type RelyingParty,
  type Shown,
  userHandleOf,
} from './webauthn.ts';

const CHALLENGE_MINUTES = 5;
export const CHALLENGE_MS = CHALLENGE_MINUTES * 60_000;

/** What a challenge is for. It is answered only for the same. */
export type Ceremony =
  | { kind: 'registration' | 'step_up'; userId: string; sessionId: string }
  | { kind: 'second_factor'; userId: string; mfaChallengeHash: string }
  | { kind: 'sign_in' };

/** The part of a request that is written to logs and trails. */
export interface Asked {
  requestId: string;
  log: Logger;
  client: ClientInfo;
}

/** A passkey that an answer names, and the challenge that the answer has used up. */
export interface Presented {
  passkey: StoredPasskey;
  challenge: string;
}

/** The same refusal for every cause. */
export const refusedPasskey = () => new AppError('unauthenticated', 'The passkey was not accepted.');

export type PasskeyCeremonies = ReturnType<typeof createPasskeyCeremonies>;

export function createPasskeyCeremonies({
  db,
  baseUrl,
  trail,
  mailer,
}: {
  db: Db;
  /** The address under which people reach this server. */
  baseUrl: () => string;
  trail: Pick<SignInTrail, 'passkeySuspected' | 'committed'>;
  mailer: Mailer;
}) {
  const party = (): RelyingParty => relyingPartyOf(baseUrl());

  /** A new challenge, in place of an earlier one for the same. */
  async function issue(ceremony: Ceremony): Promise<string> {
    const challenge = randomBytes(32).toString('base64url');
    await withSystem(db, 'issue a challenge for a passkey', async (tx) => {
      await removeExpiredChallenges(tx);
      if (ceremony.kind !== 'sign_in') await PasskeyChallenge.query(tx).where(columnsOf(ceremony)).delete();
      await PasskeyChallenge.query(tx).insert({
        ...fieldsOf(ceremony),
        challengeHash: tokenHash(challenge),
        expiresAt: raw(`now() + interval '${CHALLENGE_MINUTES} minutes'`),
      });
    });
    return challenge;
  }

  /** Uses up the challenge that an answer names. Returns undefined if it was not issued for this, or not lately. */
  async function takeChallenge(clientDataJSON: string, ceremony: Ceremony): Promise<string | undefined> {
    const challenge = challengeIn(clientDataJSON);
    if (challenge === undefined) return undefined;
    const taken = await withSystem(db, 'use up the challenge of a passkey', (tx) =>
      PasskeyChallenge.query(tx)
        .findById(tokenHash(challenge))
        .where(columnsOf(ceremony))
        .whereRaw('expires_at > now()')
        .delete(),
    );
    return taken === 1 ? challenge : undefined;
  }

  function refuse(asked: Asked, why: string): never {
    asked.log.info({ requestId: asked.requestId, ip: asked.client.ip, why }, 'auth.passkey_refused');
    throw refusedPasskey();
  }

  return {
    party,
    issue,
    takeChallenge,
    refuse,

    requestOptions(
      challenge: string,
      passkeys: readonly StoredPasskey[],
      userVerification: RequestOptions['userVerification'],
    ): RequestOptions {
      return {
        challenge,
        rpId: party().id,
        timeout: CHALLENGE_MS,
        userVerification,
        allowCredentials: passkeys.map(descriptorOf),
      };
    },

    /** The passkey that an answer names, for a challenge that it uses up. */
    async present(asked: Asked, answer: Assertion, ceremony: Ceremony): Promise<Presented> {
      const challenge = await takeChallenge(answer.response.clientDataJSON, ceremony);
      if (challenge === undefined) return refuse(asked, 'The challenge is not open for this.');
      const passkey = await withSystem(db, 'find the passkey of an answer', (tx) =>
        StoredPasskey.query(tx).findOne({ credential_id: answer.id }),
      );
      if (passkey === undefined) return refuse(asked, 'No such passkey is registered.');
      if ('userId' in ceremony && passkey.userId !== ceremony.userId) {
        return refuse(asked, 'The passkey belongs to another person.');
      }
      return { passkey, challenge };
    },

    /**
     * Checks the answer, and records that the passkey was used. A passkey that names the person itself must do so, and
     * everything but a second factor after a password requires that the authenticator has verified its user.
     */
    async prove(
      asked: Asked,
      answer: Assertion,
      { passkey, challenge }: Presented,
      kind: Ceremony['kind'],
    ): Promise<void> {
      const { userHandle } = answer.response;
      const isNamed = userHandle != null || kind === 'sign_in';
      if (isNamed && userHandle !== userHandleOf(passkey.userId)) {
        refuse(asked, 'The answer names another person.');
      }
      const shown = await checkAssertion(answer, passkey, {
        challenge,
        party: party(),
        requireUserVerification: kind !== 'second_factor',
      });
      if ('fault' in shown) return refuse(asked, shown.fault);
      const outcome = await withSystem(db, 'record the use of a passkey', async (tx) => {
        const use = await recordUse(tx, passkey.id, shown);
        if (use === 'back') await reportSuspect(tx, asked, passkey, { trail, mailer });
        return use;
      });
      if (outcome === 'used') return;
      if (outcome === 'gone') return refuse(asked, 'The passkey was removed, or is suspect.');
      trail.committed();
      refuse(asked, 'The count of signatures has gone back.');
    },
  };
}

/** For `excludeCredentials` and `allowCredentials`. */
export const descriptorOf = ({ credentialId, transports }: StoredPasskey) => ({
  id: credentialId,
  type: 'public-key' as const,
  transports,
});

const fieldsOf = (ceremony: Ceremony) => ({
  ceremony: ceremony.kind,
  userId: 'userId' in ceremony ? ceremony.userId : null,
  sessionId: 'sessionId' in ceremony ? ceremony.sessionId : null,
  mfaChallengeHash: 'mfaChallengeHash' in ceremony ? ceremony.mfaChallengeHash : null,
});

function columnsOf(ceremony: Ceremony) {
  const { userId, sessionId, mfaChallengeHash } = fieldsOf(ceremony);
  return {
    ceremony: ceremony.kind,
    user_id: userId,
    session_id: sessionId,
    mfa_challenge_hash: mfaChallengeHash,
  };
}

/** The row is locked: of two answers with the same count, one is refused. */
async function recordUse(
  tx: Tx,
  id: string,
  { signCount, synced }: Shown,
): Promise<'used' | 'gone' | 'back'> {
  const passkey = await StoredPasskey.query(tx).findById(id).whereNull('suspect_at').forUpdate();
  if (passkey === undefined) return 'gone';
  if (isCountBack(Number(passkey.signCount), signCount)) {
    await passkey.$query(tx).patch({ suspectAt: raw('now()') });
    return 'back';
  }
  await passkey.$query(tx).patch({ signCount: String(signCount), synced, lastUsedAt: raw('now()') });
  return 'used';
}

/** One of the two copies has opened the sessions that there are, and nobody knows which. */
async function reportSuspect(
  tx: Tx,
  asked: Asked,
  { id, userId, name }: StoredPasskey,
  { trail, mailer }: { trail: Pick<SignInTrail, 'passkeySuspected'>; mailer: Mailer },
): Promise<void> {
  const user = await User.query(tx).findById(userId);
  if (user === undefined) return;
  await endSessionsOf(tx, userId, 'passkey_suspect');
  await trail.passkeySuspected(tx, asked, userId, { id, name });
  const text = [
    `Hello ${user.name},`,
    `Your passkey "${name}" has just been used in a way that shows that a copy of it exists. Muster refuses it from now on, and you have been signed out everywhere.`,
    'Sign in with your password and another second factor or a recovery code, and remove the passkey in your profile. If you did not use it, tell your administrator.',
  ].join('\n\n');
  await mailer.send(tx, {
    to: user.email,
    subject: 'A passkey of your Muster account may have been copied',
    text,
  });
}
