import { randomBytes } from 'node:crypto';
import { raw } from 'objection';
import type { PublicContext } from '../../../platform/context.ts';
import type { Tx } from '../../../platform/db/transaction.ts';
import { AppError } from '../../../platform/errors.ts';
import type { Sealer } from '../../../platform/secrets/sealed.ts';
import { tokenHash } from '../../../platform/secrets/tokens.ts';
import type { AuthService } from '../../auth/index.ts';
import { exchangeTokenContext } from '../sealed-columns.ts';
import { ExchangeCode } from './exchange-code.model.ts';

const CODE_MINUTES = 2;

/** Stores the refresh token of a new session, and returns a code that can be exchanged for it once. */
export async function newExchangeCode(
  tx: Tx,
  sealer: Sealer,
  { sessionId, refreshToken }: { sessionId: string; refreshToken: string },
  minutes = CODE_MINUTES,
): Promise<string> {
  const code = randomBytes(32).toString('base64url');
  const codeHash = tokenHash(code);
  await ExchangeCode.query(tx).insert({
    codeHash,
    sessionId,
    refreshToken: sealer.seal(refreshToken, exchangeTokenContext(codeHash)),
    expiresAt: raw('now() + make_interval(mins => ?)', [minutes]),
  });
  return code;
}

/** Exchanges a code for the tokens of its session. Of two requests with the same code, one is refused. */
export async function exchangeCode(
  ctx: PublicContext,
  code: string,
  { auth, secrets }: { auth: Pick<AuthService, 'tokensOf'>; secrets: Sealer },
) {
  const codeHash = tokenHash(code);
  return ctx.withSystem('exchange the code of a sign-in', async (tx) => {
    const [taken] = await ExchangeCode.query(tx)
      .where('code_hash', codeHash)
      .whereRaw('expires_at > now()')
      .delete()
      .returning(['session_id', 'refresh_token']);
    if (taken === undefined) throw invalidCode();
    const tokens = await auth.tokensOf(tx, ctx, taken.sessionId);
    const { text: refreshToken } = secrets.open(taken.refreshToken, exchangeTokenContext(codeHash));
    return { ...tokens, refreshToken };
  });
}

const SENTENCE = 'Invalid or expired token exchange code';
const invalidCode = () =>
  new AppError('validation_failed', SENTENCE, { details: [{ path: 'body.code', message: SENTENCE }] });
