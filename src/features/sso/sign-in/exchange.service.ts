import { randomBytes } from 'node:crypto';
import { raw } from 'objection';
import type { PublicContext } from '../../../platform/context.ts';
import type { Tx } from '../../../platform/db/transaction.ts';
import { AppError } from '../../../platform/errors.ts';
import type { Sealer } from '../../../platform/secrets/sealed.ts';
import { tokenHash } from '../../../platform/secrets/tokens.ts';
import { type AuthService, findCaller } from '../../auth/index.ts';
import { exchangeTokenContext } from '../sealed-columns.ts';
import { ExchangeCode } from './exchange-code.model.ts';
import type { ExchangeRequest } from './sso.schema.ts';

const CODE_MINUTES = 2;

interface NewCode {
  sessionId: string;
  refreshToken: string;
  /** Of the browser that may exchange the code. Absent: a link, which any browser may use. */
  browserHash?: string;
}

/** Stores the refresh token of a new session, and returns a code that can be exchanged for it once. */
export async function newExchangeCode(
  tx: Tx,
  sealer: Sealer,
  { sessionId, refreshToken, browserHash }: NewCode,
  minutes = CODE_MINUTES,
): Promise<string> {
  const code = randomBytes(32).toString('base64url');
  const codeHash = tokenHash(code);
  await ExchangeCode.query(tx).insert({
    codeHash,
    sessionId,
    browserHash: browserHash ?? null,
    refreshToken: sealer.seal(refreshToken, exchangeTokenContext(codeHash)),
    expiresAt: raw('now() + make_interval(mins => ?)', [minutes]),
  });
  return code;
}

interface Exchange extends ExchangeRequest {
  /** The browser that sends the request; absent for an API client, which has no session that could be replaced. */
  browser?: { hash: string | undefined };
}

/** Exchanges a code for the tokens of its session. Of two requests with the same code, one is refused. */
export async function exchangeCode(
  ctx: PublicContext,
  { code, signedInAs, browser }: Exchange,
  { auth, secrets }: { auth: Pick<AuthService, 'tokensOf'>; secrets: Sealer },
) {
  const codeHash = tokenHash(code);
  return ctx.withSystem('exchange the code of a sign-in', async (tx) => {
    const found = await ExchangeCode.query(tx).findById(codeHash).whereRaw('expires_at > now()').forUpdate();
    if (found === undefined) throw refusedCode('Invalid or expired token exchange code');
    const { sessionId, browserHash } = found;
    if (browser !== undefined && browserHash !== null && browser.hash !== browserHash) {
      throw refusedCode('This sign-in was begun in another browser. Begin it again in this one.');
    }
    const tokens = await auth.tokensOf(tx, ctx, sessionId);
    if (signedInAs !== undefined) await assertSamePerson(tx, sessionId, signedInAs);
    await found.$query(tx).delete();
    const { text: refreshToken } = secrets.open(found.refreshToken, exchangeTokenContext(codeHash));
    return { ...tokens, refreshToken };
  });
}

/** The code stays as it is, so that the person can be asked and the request be repeated. */
async function assertSamePerson(tx: Tx, sessionId: string, signedInAs: string): Promise<void> {
  const caller = await findCaller(tx, sessionId);
  if (caller === undefined || caller.userId === signedInAs) return;
  throw new AppError('conflict', `This would sign you in as ${caller.email}.`, {
    details: { code: 'OTHER_PERSON', email: caller.email },
  });
}

const refusedCode = (message: string) =>
  new AppError('validation_failed', message, { details: [{ path: 'body.code', message }] });
