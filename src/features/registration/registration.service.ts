import type { ClientInfo, PublicContext } from '../../platform/context.ts';
import type { RateLimits } from '../../platform/cluster/rate-limits.ts';
import { postgresError } from '../../platform/db/database-errors.ts';
import { addressLimiter } from '../../platform/http/address-limits.ts';
import type { AuditTrail } from '../../platform/http/audit.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { AppError, invalid } from '../../platform/errors.ts';
import { newId } from '../../platform/ids.ts';
import type { Mailer } from '../../platform/mail/mailer.ts';
import { hashPassword } from '../../platform/secrets/passwords.ts';
import {
  ACCESS_TOKEN_SECONDS,
  type AccessTokens,
  openSession,
  passwordFault,
  type SignInLimits,
} from '../auth/index.ts';
import { type AccountEnding, findUserByEmail, User } from '../users/index.ts';
import {
  assertRegistrant,
  confirmationMail,
  confirmRegistration,
  findRegistration,
  keepRegistration,
} from './confirmation.ts';
import type { AddressConfirmation, PartnerRegistration, UserRegistration } from './registration.schema.ts';
import { slugCandidates } from './slug.ts';

const HOUR = 3600;
const NEXT_STEPS = {
  success: true as const,
  message: 'Thank you. If the address can be used, you will find what to do next in your mailbox.',
};
/** Mails to one address because of registrations, which anybody can cause. */
const MAILS_TO = { points: 10, seconds: HOUR };

export type Registration = ReturnType<typeof createRegistration>;

/** Self-registration (SPEC 4.9). All of it or nothing: no partner is left without its administrator. */
export function createRegistration({
  accessTokens,
  limits,
  signInLimits,
  audit,
  mailer,
  ending,
  baseUrl,
  isEnabled,
}: {
  accessTokens: AccessTokens;
  limits: RateLimits;
  signInLimits: Pick<SignInLimits, 'beforeTry'>;
  audit: AuditTrail;
  mailer: Mailer;
  ending: AccountEnding;
  baseUrl: () => string;
  isEnabled: boolean;
}) {
  const partnersByAddress = addressLimiter(limits, 'register-partner', { points: 3, seconds: HOUR });
  const usersByAddress = addressLimiter(limits, 'register-user', { points: 5, seconds: HOUR });
  const mailsTo = limits.limiter('register-mail-to', MAILS_TO);

  /** Throws `registration_disabled` where people come in by invitation only. */
  function assertEnabled(): void {
    if (!isEnabled) throw new AppError('registration_disabled', 'Registration is not open on this server.');
  }

  /** After the answer, which must not tell whether the address is taken by what it takes to find out. */
  function mailLink(ctx: PublicContext, email: string, token: string): void {
    mailer.post(async () => {
      const isAllowed = await mailsTo.take(email.toLowerCase()).then(
        () => true,
        () => false,
      );
      if (!isAllowed) {
        ctx.log.warn({ requestId: ctx.requestId }, 'registration.too_many_mails_to_one_address');
        return undefined;
      }
      const present = await ctx.withSystem('whether an address has an owner', (tx) =>
        findUserByEmail(tx, email),
      );
      const isTaken = present !== undefined && present.emailVerifiedAt !== null;
      return confirmationMail(email, isTaken, (path) =>
        path === '/verify-email' ? `${baseUrl()}${path}#token=${token}` : `${baseUrl()}${path}`,
      );
    });
  }

  async function makePartner(tx: Tx, ctx: PublicContext, companyName: string, user: User) {
    const partner = await insertPartner(tx, companyName);
    const roleId = await insertAdminRole(tx, partner.id);
    await tx('partner_users').insert({
      partner_id: partner.id,
      user_id: user.id,
      role_id: roleId,
      org_access: 'all',
    });
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
    /** Counts every attempt, whatever is sent (SPEC 4.9). */
    async beforePartner({ ip }: ClientInfo): Promise<void> {
      assertEnabled();
      await partnersByAddress.take(ip);
    },

    async beforeUser({ ip }: ClientInfo): Promise<void> {
      assertEnabled();
      await usersByAddress.take(ip);
    },

    /**
     * The provider and its administrator at once, where the address has no account (SPEC 4.9); otherwise what to do
     * next is in a mail, which lets the owner of the address go on.
     */
    async registerPartner(ctx: PublicContext, input: PartnerRegistration) {
      const passwordHash = await hashOf(input.password);
      const made = await unlessTaken(() =>
        ctx.withSystem('register a partner', async (tx) => {
          const { name, email } = input;
          const user = await User.query(tx).insert({ name, email, passwordHash, status: 'active' });
          const { partner, roleId } = await makePartner(tx, ctx, input.companyName, user);
          const token = await keepRegistration(tx, input, passwordHash, { userId: user.id });
          return { partner, user, roleId, token, ...(await openSession(tx, user.id, ctx.client)) };
        }),
      );
      if (made === undefined) {
        const { companyName } = input;
        const token = await ctx.withSystem('keep a registration until it is confirmed', (tx) =>
          keepRegistration(tx, input, passwordHash, { companyName }),
        );
        mailLink(ctx, input.email, token);
        return { answer: NEXT_STEPS };
      }
      audit.committed();
      mailLink(ctx, input.email, made.token);
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

    /** An account that belongs nowhere yet. It is made when its address is confirmed, and not before. */
    async registerUser(ctx: PublicContext, input: UserRegistration) {
      const passwordHash = await hashOf(input.password);
      const token = await ctx.withSystem('keep a registration until it is confirmed', (tx) =>
        keepRegistration(tx, input, passwordHash),
      );
      mailLink(ctx, input.email, token);
      return NEXT_STEPS;
    },

    /** Confirms the address of a registration, by the link in its mail together with the password that was chosen. */
    async confirm(ctx: PublicContext, input: AddressConfirmation): Promise<{ success: true }> {
      const pending = await ctx.withSystem('look for a registration', (tx) =>
        findRegistration(tx, input.token),
      );
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

/** Before anyone is looked for, so that the work is the same whether the address is taken or not. */
async function hashOf(password: string): Promise<string> {
  const fault = passwordFault(password);
  if (fault !== undefined) throw invalid('body.password', fault, fault);
  return hashPassword(password);
}

/** `undefined` where somebody has the address: everything that was written meanwhile is undone. */
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
  const taken = new Set<string>(await tx('partners').whereIn('slug', candidates).pluck('slug'));
  for (const slug of candidates.filter((candidate) => !taken.has(candidate))) {
    // Somebody else may take it in this very moment; then the next one is tried.
    const [partner] = await tx('partners')
      .insert({ id: newId(), name: companyName, slug, type: 'msp', plan: 'free', status: 'pending' })
      .onConflict('slug')
      .ignore()
      .returning<{ id: string; name: string; slug: string }[]>(['id', 'name', 'slug']);
    if (partner !== undefined) return partner;
  }
  throw new AppError('internal', 'Unable to generate unique company identifier');
}

async function insertAdminRole(tx: Tx, partnerId: string): Promise<string> {
  const id = newId();
  await tx('roles').insert({
    id,
    scope: 'partner',
    partner_id: partnerId,
    name: 'Partner Admin',
    permissions: ['*:*'],
    is_system: true,
  });
  return id;
}
