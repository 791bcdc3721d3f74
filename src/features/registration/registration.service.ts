import type { ClientInfo, PublicContext } from '../../platform/context.ts';
import type { RateLimits } from '../../platform/cluster/rate-limits.ts';
import { postgresError } from '../../platform/db/database-errors.ts';
import { addressLimiter, clientLimit } from '../../platform/http/client-address.ts';
import type { AuditTrail } from '../../platform/http/audit.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { AppError, invalid } from '../../platform/errors.ts';
import { newId } from '../../platform/ids.ts';
import type { Jobs } from '../../platform/jobs/jobs.ts';
import { hashPassword } from '../../platform/secrets/passwords.ts';
import {
  ACCESS_TOKEN_SECONDS,
  type AccessTokens,
  openSession,
  passwordFault,
  type SignInLimits,
} from '../auth/index.ts';
import { Partner } from '../partners/index.ts';
import { EVERYTHING, Role } from '../roles/index.ts';
import { type AccountEnding, addMembership, findUserByEmail, User } from '../users/index.ts';
import {
  assertRegistrant,
  confirmRegistration,
  findRegistration,
  keepRegistration,
  MAIL_CONFIRMATION,
} from './confirmation.ts';
import type { AddressConfirmation, PartnerRegistration, UserRegistration } from './registration.schema.ts';

const HOUR = 3600;
const QUESTIONS = { points: 300, seconds: 60 };
const NEXT_STEPS = {
  success: true as const,
  message: 'Thank you. If the address can be used, you will receive a mail with the next steps.',
};

export type Registration = ReturnType<typeof createRegistration>;

/** Self-registration (SPEC 4.9), in one transaction: no partner is left without its administrator. */
export function createRegistration({
  accessTokens,
  limits,
  signInLimits,
  audit,
  jobs,
  ending,
  isEnabled,
}: {
  accessTokens: AccessTokens;
  limits: RateLimits;
  signInLimits: Pick<SignInLimits, 'beforeTry'>;
  audit: AuditTrail;
  jobs: Jobs;
  ending: AccountEnding;
  isEnabled: boolean;
}) {
  const partnersByAddress = addressLimiter(limits, 'register-partner', { points: 3, seconds: HOUR });
  const usersByAddress = addressLimiter(limits, 'register-user', { points: 5, seconds: HOUR });

  /** Throws `registration_disabled` if accounts are created by invitation only. */
  function assertEnabled(): void {
    if (!isEnabled) throw new AppError('registration_disabled', 'Registration is disabled on this server.');
  }

  async function mailLink(tx: Tx, email: string, token: string): Promise<void> {
    await jobs.enqueue(tx, MAIL_CONFIRMATION, { email, token });
  }

  async function makePartner(tx: Tx, ctx: PublicContext, companyName: string, user: User) {
    const partner = await insertPartner(tx, companyName);
    const roleId = await insertAdminRole(tx, partner.id);
    const grant = { roleId, orgAccess: 'all' as const, orgIds: [] };
    await addMembership(tx, user.id, { partnerId: partner.id, orgId: null }, grant);
    await audit.record(tx, {
      action: 'partner.create',
      resourceType: 'partner',
      resourceId: partner.id,
      resourceName: partner.name,
      details: { registered: true },
      actor: {
        kind: 'user',
        userId: user.id,
        apiKeyId: null,
        email: user.email,
        partnerId: partner.id,
        orgId: null,
      },
      state: ctx,
    });
    return { partner, roleId };
  }

  return {
    isEnabled,
    beforeQuestion: clientLimit(limits, 'registration-state', QUESTIONS),

    /** Counts every attempt, valid or not (SPEC 4.9). */
    async beforePartner({ ip }: ClientInfo): Promise<void> {
      assertEnabled();
      await partnersByAddress.take(ip);
    },

    async beforeUser({ ip }: ClientInfo): Promise<void> {
      assertEnabled();
      await usersByAddress.take(ip);
    },

    /**
     * Creates the provider and its administrator at once if the address has no account (SPEC 4.9). Otherwise a mail
     * shows the owner of the address how to continue.
     */
    async registerPartner(ctx: PublicContext, input: PartnerRegistration) {
      const passwordHash = await hashOf(input.password);
      const made = await unlessTaken(() =>
        ctx.withSystem('register a partner', async (tx) => {
          const { name, email } = input;
          if ((await findUserByEmail(tx, email)) !== undefined) return undefined;
          const user = await User.query(tx).insert({ name, email, passwordHash, status: 'active' });
          const { partner, roleId } = await makePartner(tx, ctx, input.companyName, user);
          const token = await keepRegistration(tx, input, passwordHash, { userId: user.id });
          await mailLink(tx, email, token);
          return { partner, user, roleId, ...(await openSession(tx, user.id, ctx.client)) };
        }),
      );
      if (made === undefined) {
        const { companyName } = input;
        await ctx.withSystem('keep a registration until it is confirmed', async (tx) => {
          const token = await keepRegistration(tx, input, passwordHash, { companyName });
          await mailLink(tx, input.email, token);
        });
        return { answer: NEXT_STEPS };
      }
      audit.committed();
      const { partner, user, roleId, sessionId, refreshToken } = made;
      const accessToken = accessTokens.issue({
        userId: user.id,
        sessionId,
        scope: 'partner',
        partnerId: partner.id,
        orgId: null,
        roleId,
        mfa: false,
      });
      const { id, email, name } = user;
      return {
        refreshToken,
        answer: {
          user: { id, email, name, mfaEnabled: false },
          partner,
          tokens: { accessToken, expiresInSeconds: ACCESS_TOKEN_SECONDS },
          mfaRequired: false as const,
        },
      };
    },

    /** Registers an account without a membership. It is created when its address is confirmed, not before. */
    async registerUser(ctx: PublicContext, input: UserRegistration) {
      const passwordHash = await hashOf(input.password);
      await ctx.withSystem('keep a registration until it is confirmed', async (tx) => {
        const token = await keepRegistration(tx, input, passwordHash);
        await mailLink(tx, input.email, token);
      });
      return NEXT_STEPS;
    },

    /** Confirms the address of a registration, with the link in its mail and the password that was chosen. */
    async confirm(ctx: PublicContext, input: AddressConfirmation): Promise<{ success: true }> {
      const pending = await ctx.withSystem('find a registration', (tx) => findRegistration(tx, input.token));
      const uncount = await signInLimits.beforeTry(pending.email, ctx.client, ctx.withSystem);
      await assertRegistrant(pending, input);
      await uncount();
      await ctx.withSystem('confirm a registration', async (tx) => {
        const { user, companyName } = await confirmRegistration(tx, ctx, input.token, ending);
        if (companyName !== null) await makePartner(tx, ctx, companyName, user);
      });
      audit.committed();
      return { success: true };
    },
  };
}

/** Hashes before the lookup, so that the work is the same whether the address is taken or not. */
async function hashOf(password: string): Promise<string> {
  const fault = passwordFault(password);
  if (fault !== undefined) throw invalid('body.password', fault, fault);
  return hashPassword(password);
}

/** `undefined` if the address is taken: the transaction of `work` has then been rolled back. */
async function unlessTaken<T>(work: () => Promise<T>): Promise<T | undefined> {
  try {
    return await work();
  } catch (error) {
    if (postgresError(error)?.constraint === 'users_email_key') return undefined;
    throw error;
  }
}

async function insertPartner(
  tx: Tx,
  companyName: string,
): Promise<{ id: string; name: string; slug: string }> {
  const candidates = slugCandidates(companyName);
  const taken = new Set((await Partner.query(tx).whereIn('slug', candidates)).map(({ slug }) => slug));
  for (const slug of candidates.filter((candidate) => !taken.has(candidate))) {
    const partner = { id: newId(), name: companyName, slug };
    await Partner.query(tx)
      .insert({ ...partner, type: 'msp', plan: 'free', status: 'pending' })
      .onConflict('slug')
      .ignore();
    // Another registration may have just taken the slug; then the next one is tried.
    if ((await Partner.query(tx).findById(partner.id)) !== undefined) return partner;
  }
  throw new AppError('internal', 'Unable to generate unique company identifier');
}

async function insertAdminRole(tx: Tx, partnerId: string): Promise<string> {
  const role = await Role.query(tx).insert({
    scope: 'partner',
    partnerId,
    name: 'Partner Admin',
    permissions: [EVERYTHING],
    isSystem: true,
  });
  return role.id;
}

const BASE_LENGTH = 50;
const SUFFIXES = 100;

/** A company's name as part of an address (SPEC 4.9, rule 5). */
export function slugOf(companyName: string): string {
  const slug = companyName
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .slice(0, BASE_LENGTH)
    .replaceAll(/^-+|-+$/g, '');
  // A name in another script leaves nothing over.
  return slug === '' ? 'company' : slug;
}

/** In the order in which they are tried: the slug itself, then with -1 to -100 behind it. */
export function slugCandidates(companyName: string): string[] {
  const base = slugOf(companyName);
  return [base, ...Array.from({ length: SUFFIXES }, (_value, index) => `${base}-${index + 1}`)];
}
