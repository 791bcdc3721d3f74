import type { Context, DetachedContext } from '../../../platform/context.ts';
import { AppError, invalid } from '../../../platform/errors.ts';
import { verifyPassword } from '../../../platform/secrets/passwords.ts';
import type { Sealer } from '../../../platform/secrets/sealed.ts';
import { User } from '../../users/index.ts';
import { FRESH_MINUTES, holdSession, isFreshFromProvider } from '../sessions/session.service.ts';
import type { SignInLimits } from '../sign-in-limits.ts';
import { factorOf, type ReadCode, readCode, spend } from './factor.ts';

/** The same refusal for every cause. */
export const wrongCode = () => new AppError('unauthenticated', 'The code is incorrect or has expired.');

/** What the caller has to prove before they change their second factor. */
interface Claim {
  code?: string;
  /** Present where the caller must prove to own the account, and not only to hold its session. */
  owner?: { currentPassword?: string | undefined };
}

/** What the caller proved before the transaction. It counts if the password is still the same in it and the code unused. */
export interface Proof {
  passwordHash: string | null;
  /** The account has no password, and the sign-in of this session stood for it. */
  bySession: boolean;
  code: ReadCode | undefined;
}

type WantedState = 'enabled' | 'not enabled';

/** Proofs of a signed-in user about their own account. */
export function ownProofs({ sealer, ownSecrets }: { sealer: Sealer } & Pick<SignInLimits, 'ownSecrets'>) {
  /** Throws unless what is claimed is correct. Runs outside any transaction, because hashing takes time. */
  async function prove(
    ctx: DetachedContext,
    wanted: WantedState,
    { owner, code: given }: Claim,
  ): Promise<Proof> {
    const { userId } = ctx.caller;
    const { passwordHash, factor, isFresh } = await ctx.withTenant(async (within) => ({
      passwordHash: (await User.query(within.tx).findById(userId))?.passwordHash ?? null,
      factor: await factorOf(within.tx, sealer, userId),
      isFresh: owner !== undefined && (await isFreshFromProvider(within)),
    }));
    const bySession = owner !== undefined && owner.currentPassword === undefined;
    if (bySession) assertReplacesPassword(passwordHash, isFresh);
    assertState(factor?.enabled === true, wanted);
    await ownSecrets.take(userId);
    if (
      owner?.currentPassword !== undefined &&
      !(await verifyPassword(passwordHash, owner.currentPassword))
    ) {
      throw new AppError('unauthenticated', 'The password is incorrect.');
    }
    if (given === undefined) return { passwordHash, bySession, code: undefined };
    if (factor === undefined) throw new AppError('conflict', 'No second factor is set up.');
    const code = await readCode(factor, given);
    if (code === undefined) throw wrongCode();
    return { passwordHash, bySession, code };
  }

  /** In the transaction of the change: what was proved must still hold, until the end of the transaction. */
  async function redeem(
    ctx: Context,
    wanted: WantedState,
    { passwordHash, bySession, code }: Proof,
  ): Promise<void> {
    const { userId } = ctx.caller;
    if (code !== undefined && !(await spend(ctx.tx, userId, code))) throw wrongCode();
    assertState((await factorOf(ctx.tx, sealer, userId))?.enabled === true, wanted);
    const [person] = await User.query(ctx.tx)
      .where({ id: userId, password_hash: passwordHash, status: 'active' })
      .forUpdate();
    if (person === undefined) throw changedElsewhere();
    if (bySession) await holdSession(ctx);
    ctx.afterCommit(() => ownSecrets.forget(userId));
  }

  return { prove, redeem };
}

/** People whose account has no password prove with a fresh sign-in that it is theirs. Nobody else does. */
function assertReplacesPassword(passwordHash: string | null, isFresh: boolean): void {
  if (passwordHash !== null) throw invalid('body.currentPassword', 'is required');
  if (isFresh) return;
  throw new AppError(
    'unauthenticated',
    `Your account has no password. Sign in again with single sign-on and repeat this within ${FRESH_MINUTES} minutes.`,
  );
}

function assertState(enabled: boolean, wanted: WantedState): void {
  if (enabled && wanted === 'not enabled') {
    throw new AppError('conflict', 'A second factor is enabled. Disable it first.');
  }
  if (!enabled && wanted === 'enabled') throw new AppError('conflict', 'No second factor is enabled.');
}

const changedElsewhere = () =>
  new AppError('conflict', 'The password has just been changed elsewhere. Try again.');
