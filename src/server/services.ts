import { createApiKeyCallers, revokeKeysOf } from '../features/api-keys/index.ts';
import {
  auditKeysLimit,
  AuditSealer,
  createAuditTrail,
  createChainVerifier,
  RepeatedReads,
  SigningKeys,
} from '../features/audit/index.ts';
import {
  authService,
  createAccessTokens,
  createAuthenticator,
  createRightsLookup,
  createSecondFactor,
  SignInTrail,
  signInLimits,
  tokenLimits,
} from '../features/auth/index.ts';
import { recoveryLimits } from '../features/backup/index.ts';
import { enrollLimits } from '../features/enrollment/index.ts';
import { LogReadRecorder } from '../features/event-logs/index.ts';
import { LogBudgets } from '../features/log-budgets/index.ts';
import { createRegistration } from '../features/registration/index.ts';
import { serviceLimits } from '../features/service/index.ts';
import { breakGlassGuard, createPasswordPolicy } from '../features/sso/index.ts';
import { type AccountEnding, createFirstAdmin, invitationLimits } from '../features/users/index.ts';
import { webhookTestLimit } from '../features/webhooks/index.ts';
import { createRateLimits } from '../platform/cluster/rate-limits.ts';
import type { CloseStack } from '../platform/close-stack.ts';
import { withSystem } from '../platform/db/transaction.ts';
import type { Infrastructure } from './infrastructure.ts';
import { createAgentReleases } from './agent-releases.ts';
import { createCloudBackup } from './cloud-backup.ts';
import { createBackupEngine, createBackupStore } from './backup-store.ts';
import type { ServerOptions } from './options.ts';
import { createSingleSignOn } from './single-sign-on.ts';

export type Services = Awaited<ReturnType<typeof createServices>>;

/** What several features share and no device takes part in: who is who, and the record of who did what. */
export async function createServices(
  infrastructure: Infrastructure,
  options: Pick<ServerOptions, 'jwtSecret' | 'backupStore'>,
  closing: CloseStack,
) {
  const { jwtSecret } = options;
  const { baseUrl, config, database, log, mailer, rateLimits, secrets, jobs } = infrastructure;
  await createConfiguredAdmin(infrastructure);

  const accessTokens = createAccessTokens(jwtSecret);
  const apiKeys = createApiKeyCallers({ db: database.pool, log, limits: rateLimits });
  closing.add('use of API keys', () => apiKeys.close());
  const authenticator = createAuthenticator({ db: database.pool, accessTokens, apiKeys, log });
  const rightsNow = createRightsLookup({ db: database.pool, apiKeys });

  const auditKeys = new SigningKeys(secrets);
  const auditSealer = await startAuditSealer(infrastructure, auditKeys);
  closing.add('audit sealer', () => auditSealer.close());
  const audit = createAuditTrail(auditSealer);
  const logReads = new LogReadRecorder({ db: database.pool, audit, log });
  closing.add('records of log reads', () => logReads.close());
  const trail = new SignInTrail(audit);
  closing.add('sign-in trail', () => trail.close());

  const limits = signInLimits(rateLimits);
  // Of what has to go on while Redis is away.
  const nodeLimits = createRateLimits(undefined);
  const passwordPolicy = createPasswordPolicy({ audit, mailer, baseUrl });
  const secondFactor = createSecondFactor({ sealer: secrets, limits, breakGlassGuard });
  const ending: AccountEnding = {
    revokeKeysOf,
    noteDisplaced: (tx, ctx, userId) => trail.noteDisplaced(tx, ctx, userId),
    noteLeft: (tx, ctx, user, tenant) => trail.noteLeft(tx, ctx, user, tenant),
  };
  return {
    apiKeys,
    rightsNow,
    authenticator,
    auditKeys,
    auditSealer,
    audit,
    verifyChain: createChainVerifier({ db: database.jobPool, keys: auditKeys }),
    logReads,
    reads: new RepeatedReads(),
    logBudgets: new LogBudgets(),
    trail,
    limits,
    tokenLimits: tokenLimits(nodeLimits),
    auditKeysLimit: auditKeysLimit(nodeLimits),
    serviceLimits: serviceLimits(nodeLimits),
    enrollLimits: enrollLimits(rateLimits),
    recoveryLimits: recoveryLimits(rateLimits),
    invitationLimits: invitationLimits(rateLimits),
    webhookTestLimit: webhookTestLimit(rateLimits),
    secondFactor,
    ending,
    passwordPolicy,
    breakGlassGuard,
    ...createSingleSignOn(infrastructure),
    ...createCloudBackup(infrastructure),
    ...(await createAgentReleases(infrastructure)),
    backupStore: await createBackupStore(infrastructure, options),
    backupEngine: createBackupEngine(config),
    auth: authService({ accessTokens, secondFactor, limits, trail, ending, passwordPolicy }),
    registration: createRegistration({
      accessTokens,
      limits: rateLimits,
      signInLimits: limits,
      audit,
      jobs,
      ending,
      isEnabled: config.registrationEnabled,
    }),
  };
}

async function createConfiguredAdmin({ config, database, log }: Infrastructure): Promise<void> {
  if (config.firstAdmin === undefined) return;
  const { email } = config.firstAdmin;
  const isNew = await createFirstAdmin(
    (why, work) => withSystem(database.pool, why, work),
    config.firstAdmin,
  );
  if (isNew) log.info({ email }, 'server.first_admin_created');
}

async function startAuditSealer(
  { database, metrics, log }: Infrastructure,
  keys: SigningKeys,
): Promise<AuditSealer> {
  await keys.ensure(database.pool);
  const lag = metrics.histogram(
    'muster_audit_seal_lag_seconds',
    'Time from an action until its audit entry is sealed into the chain.',
    [],
    [0.05, 0.1, 0.25, 0.5, 1, 5, 30, 300],
  );
  const sealer = new AuditSealer({
    // The pool of the live side, so that people never wait for sealing.
    db: database.hubPool,
    keys,
    log,
    onSealed: (seconds) => lag.observe(seconds),
  });
  metrics.gauge(
    'muster_audit_chains_failing',
    'Audit chains with waiting entries that could not be sealed.',
    () => sealer.failing(),
  );
  // A server that was killed may have left entries that are not sealed yet.
  sealer.wake();
  return sealer;
}
