import type { PublicContext } from '../../platform/context.ts';
import type { RateLimits } from '../../platform/cluster/rate-limits.ts';
import { postgresError } from '../../platform/db/database-errors.ts';
import type { AuditTrail } from '../../platform/http/audit.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { AppError, invalid } from '../../platform/errors.ts';
import { newId } from '../../platform/ids.ts';
import { hashPassword } from '../../platform/secrets/passwords.ts';
import { ACCESS_TOKEN_SECONDS, openSession, passwordFault, type AccessTokens } from '../auth/index.ts';
import { User } from '../users/index.ts';
import type { PartnerRegistration, UserRegistration } from './registration.schema.ts';
import { slugCandidates } from './slug.ts';

const HOUR = 3600;
const NEXT_STEPS = {
  success: true as const,
  message: 'Thank you. If the address can be used, you will find what to do next in your mailbox.',
};

export type Registration = ReturnType<typeof createRegistration>;

/** Self-registration (SPEC 4.9). All of it or nothing: no partner is left without its administrator. */
export function createRegistration({
  accessTokens,
  limits,
  audit,
  isEnabled,
}: {
  accessTokens: AccessTokens;
  limits: RateLimits;
  audit: AuditTrail;
  isEnabled: boolean;
}) {
  const partnersByAddress = limits.limiter('register-partner', { points: 3, seconds: HOUR });
  const usersByAddress = limits.limiter('register-user', { points: 5, seconds: HOUR });

  return {
    /** Throws `registration_disabled` where people come in by invitation only. */
    assertEnabled(): void {
      if (!isEnabled) throw new AppError('registration_disabled', 'Registration is not open on this server.');
    },

    async registerPartner(ctx: PublicContext, input: PartnerRegistration) {
      await partnersByAddress.take(ctx.client.ip);
      const passwordHash = await hashOf(input.password);
      const made = await unlessTaken(() =>
        ctx.withSystem('register a partner', async (tx) => {
          const partner = await insertPartner(tx, input.companyName);
          const user = await insertUser(tx, input, passwordHash);
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
          return { partner, user, roleId, ...(await openSession(tx, user.id, ctx.client)) };
        }),
      );
      if (made === undefined) return { answer: NEXT_STEPS };
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

    /** An account that belongs nowhere yet, and waits for an invitation. */
    async registerUser(ctx: PublicContext, input: UserRegistration) {
      await usersByAddress.take(ctx.client.ip);
      const passwordHash = await hashOf(input.password);
      await unlessTaken(() =>
        ctx.withSystem('register a person', (tx) => insertUser(tx, input, passwordHash)),
      );
      return NEXT_STEPS;
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

async function insertUser(tx: Tx, { name, email }: UserRegistration, passwordHash: string): Promise<User> {
  return User.query(tx).insert({ name, email, passwordHash, status: 'active' });
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
