import { createApiKeyCallers, revokeKeysOf } from '../features/api-keys/index.ts';
import {
  auditKeysLimit,
  ChainWriter,
  createAuditTrail,
  createChainVerifier,
  RepeatedReads,
  SigningKeys,
} from '../features/audit/index.ts';
import {
  assertFreshSecondFactor,
  authService,
  createAccessTokens,
  createAuthenticator,
  createRightsLookup,
  createPasskeyCeremonies,
  createPasskeys,
  createSecondFactor,
  SignInTrail,
  signInLimits,
  tokenLimits,
} from '../features/auth/index.ts';
import { OpenedImages, RepositoryReaders, ServerEngine } from '../features/backup/index.ts';
import { createStore, FolderStorage, S3Storage } from '../features/backup-store/index.ts';
import { enrollLimits } from '../features/enrollment/index.ts';
import { LogReadRecorder, LogBudgets, LogPartitions } from '../features/logs/index.ts';
import { bareMetalLimits } from '../features/machine-recovery/index.ts';
import { addressCodeLimits, channelTestLimit } from '../features/notifications/index.ts';
import { createRegistration } from '../features/registration/index.ts';
import { serviceLimits } from '../features/service.ts';
import {
  breakGlassGuard,
  createPasswordPolicy,
  createLoginContexts,
  createOidcProtocol,
  createSamlProtocol,
  createStartSignIn,
  ssoLimits,
  stateCookie,
  newExchangeCode,
} from '../features/sso/index.ts';
import {
  type AccountEnding,
  createFirstAdmin,
  invitationLimits,
  listSystemAdmins,
} from '../features/users/index.ts';
import { webhookTestLimit } from '../features/webhooks/index.ts';
import { createRateLimits } from '../platform/cluster/rate-limits.ts';
import type { CloseStack } from '../platform/close-stack.ts';
import { withSystem, type Tx } from '../platform/db/transaction.ts';
import type { Infrastructure, ServerOptions } from './infrastructure.ts';
import {
  AccessTokens,
  type CloudParts,
  consentCookie,
  consentLimit,
} from '../features/cloud-backup/index.ts';
import { createMac } from '../platform/secrets/tokens.ts';
import {
  githubReleases,
  openReleaseFiles,
  ReleaseKeys,
  releaseLimits,
  ReleaseSync,
  removeIfUnused,
} from '../features/releases/index.ts';
import { ReleaseTrust } from '../features/agent-upgrades/index.ts';
import path from 'node:path';
import type { Config } from '../config.ts';
import { S3Objects } from '../platform/s3-objects.ts';
import { clock } from '../clock.ts';
import { newId } from '../platform/ids.ts';

/** The store for the backups of devices: in the data folder, or in the operator's bucket. */
async function createBackupStore(
  { config, database, metrics, rateLimits, secrets }: Infrastructure,
  { backupStore: testing }: Pick<ServerOptions, 'backupStore'>,
) {
  const { quota, trashDays } = config.backupStore;
  const storage = storageOf(config, testing);
  // Parts of uploads are of an earlier run, unless several servers share the folder.
  if (config.redisUrl === undefined) await storage.sweep(0);
  const store = createStore({
    db: database.storePool,
    storage,
    quota,
    rateLimits,
    metrics,
    idleMs: testing?.idleMs,
  });
  const readers = new RepositoryReaders({ db: database.pool, storage, encryptor: secrets });
  return { ...store, quota, trashDays, readers, images: new OpenedImages() };
}

function storageOf(
  { backupStore: { s3 }, dataDir }: Infrastructure['config'],
  testing: ServerOptions['backupStore'],
) {
  const folder = path.join(dataDir, 'backups');
  if (s3 === undefined) return new FolderStorage(folder, testing);
  const { prefix, ...bucket } = s3;
  return new S3Storage(new S3Objects(bucket), { ...testing, prefix, spool: path.join(folder, 'spool') });
}

/** restic for the work of the server itself in repositories. */
const createBackupEngine = ({ dataDir, backupStore: { enginePath } }: Config) =>
  new ServerEngine({ folder: path.join(dataDir, 'backup-engine'), searchPath: enginePath });

export type Services = Awaited<ReturnType<typeof createServices>>;

/** Services of several features in which no device takes part: identities, and the record of actions. */
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
  const chainWriter = await startChainWriter(infrastructure, auditKeys);
  closing.add('audit sealer', () => chainWriter.close());
  const audit = createAuditTrail(chainWriter);
  const logReads = new LogReadRecorder({ db: database.pool, audit, log });
  closing.add('records of log reads', () => logReads.close());
  const trail = new SignInTrail(audit);
  closing.add('sign-in trail', () => trail.close());

  const limits = signInLimits(rateLimits);
  // For limits that have to work while Redis is away.
  const nodeLimits = createRateLimits(undefined);
  const passwordPolicy = createPasswordPolicy({ audit, mailer, baseUrl });
  const secondFactor = createSecondFactor({ encryptor: secrets, limits, breakGlassGuard });
  const passkeys = createPasskeys({
    db: database.pool,
    ceremonies: createPasskeyCeremonies({ db: database.pool, baseUrl, trail, mailer }),
    encryptor: secrets,
    limits,
    secondFactor,
    breakGlassGuard,
    mailer,
  });
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
    chainWriter,
    audit,
    verifyChain: createChainVerifier({ db: database.jobPool, keys: auditKeys }),
    logReads,
    reads: new RepeatedReads(),
    logBudgets: new LogBudgets(),
    logPartitions: new LogPartitions({ db: database.jobPool, log }),
    trail,
    limits,
    tokenLimits: tokenLimits(nodeLimits),
    auditKeysLimit: auditKeysLimit(nodeLimits),
    serviceLimits: serviceLimits(nodeLimits),
    enrollLimits: enrollLimits(rateLimits),
    bareMetalLimits: bareMetalLimits(rateLimits),
    invitationLimits: invitationLimits(rateLimits),
    webhookTestLimit: webhookTestLimit(rateLimits),
    channelTestLimit: channelTestLimit(rateLimits),
    addressCodeLimits: addressCodeLimits(rateLimits),
    secondFactor,
    passkeys,
    ending,
    passwordPolicy,
    breakGlassGuard,
    assertFreshSecondFactor,
    ...createSingleSignOn(infrastructure),
    ...createCloudBackup(infrastructure),
    ...(await createAgentReleases(infrastructure)),
    backupStore: await createBackupStore(infrastructure, options),
    backupEngine: createBackupEngine(config),
    auth: authService({ accessTokens, secondFactor, passkeys, limits, trail, ending, passwordPolicy }),
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

const NO_ADMIN =
  'This server has no administrator yet. Start it with SVC_ADMIN_EMAIL and SVC_ADMIN_PASSWORD while it has no accounts, or run: npm run muster -- admin create --email you@example.com';

async function createConfiguredAdmin({ config, database, log }: Infrastructure): Promise<void> {
  if (config.firstAdmin === undefined) {
    const [admin] = await listSystemAdmins(database.pool);
    if (admin === undefined) log.warn({ hint: NO_ADMIN }, 'server.no_administrator');
    return;
  }
  const { email } = config.firstAdmin;
  const isNew = await createFirstAdmin(
    (why, work) => withSystem(database.pool, why, work),
    config.firstAdmin,
  );
  if (isNew) log.info({ email }, 'server.first_admin_created');
}

async function startChainWriter(
  { database, metrics, log }: Infrastructure,
  keys: SigningKeys,
): Promise<ChainWriter> {
  await keys.ensure(database.pool);
  const lag = metrics.histogram(
    'muster_audit_seal_lag_seconds',
    'Time from an action until its audit entry is sealed into the chain.',
    [],
    [0.05, 0.1, 0.25, 0.5, 1, 5, 30, 300],
  );
  const sealer = new ChainWriter({
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

/** The parts of the backup of Microsoft 365: access to Graph, and the cookie that binds a consent to its browser. */
function createCloudBackup({
  cloudFetch,
  cloudFiles,
  config: { cloudBackup, secureCookies },
  rateLimits,
  secretKeys,
  secrets,
}: Infrastructure) {
  const cloud: CloudParts = {
    cloudFetch,
    cloudFiles,
    cloudBackup,
    cloudTokens: new AccessTokens(cloudFetch, cloudBackup),
    secrets,
  };
  return {
    cloud,
    consentLimit: consentLimit(rateLimits),
    consentCookie: consentCookie({ mac: createMac(secretKeys, 'state of a consent'), secureCookies }),
  };
}

/** The files of agent releases, the keys that sign them, and the limits of their public routes. */
async function createAgentReleases(infrastructure: Infrastructure) {
  const { config, database, log, rateLimits, secrets } = infrastructure;
  const keys = new ReleaseKeys(secrets);
  await keys.ensure(database.pool);
  const files = openReleaseFiles(config);
  await files.removeAbandoned();
  const registry = { files, keys, promotesItself: config.autoPromotesReleases };
  return {
    releases: {
      ...registry,
      forgetFile: (sha256: string) => removeIfUnused({ db: database.pool, files, log }, sha256),
    },
    releaseSync: new ReleaseSync({ ...registry, db: database.pool, github: githubOf(infrastructure) }),
    syncsReleases: config.github !== undefined && config.binarySource === 'github',
    releaseLimits: releaseLimits(rateLimits),
    releaseTrust: new ReleaseTrust(database.hubPool, keys),
    releaseKeys: (tx: Tx) => keys.published(tx),
  };
}

function githubOf({ config, githubFetch, githubFiles }: Infrastructure) {
  if (config.github === undefined) return undefined;
  const { url, token, fileHosts } = config.github;
  const access = { outbound: githubFetch, filesOutbound: githubFiles, url, token, fileHosts };
  return { ...githubReleases(access), source: config.binarySource };
}

/**
 * The parts that routes of single sign-on share: both protocols, the cookie that binds a sign-in to its browser, and
 * limits.
 */
function createSingleSignOn({
  baseUrl,
  config,
  database,
  rateLimits,
  secretKeys,
  secrets,
  ssoFetch,
}: Infrastructure) {
  const at = (path: string) => () => `${baseUrl()}/api/v1/sso/${path}`;
  const saml = {
    fetch: ssoFetch,
    entityId: () => config.samlEntityId ?? at('saml/metadata')(),
    acsUrl: at('saml/acs'),
  };
  const protocols = {
    oidc: createOidcProtocol({ fetch: ssoFetch, encryptor: secrets, callbackUrl: at('callback') }),
    saml: createSamlProtocol(saml),
  };
  return {
    saml,
    protocols,
    stateCookie: stateCookie({
      mac: createMac(secretKeys, 'state of a sign-in'),
      secureCookies: config.secureCookies,
    }),
    startSignIn: createStartSignIn({ db: database.pool, protocols }),
    ssoLimits: ssoLimits(rateLimits),
    loginContexts: createLoginContexts({ isSelfHosted: config.isSelfHosted, baseUrl }),
  };
}

/** Longer than the code of a single sign-on lives, because a person has to see the link first. */
const LINK_MINUTES = 15;

/**
 * Signs a person in for the program that runs this server, which has the database in its hands anyway: no route leads
 * here. The answer belongs behind the address of any page of the dashboard, and is good for one browser, once. The part
 * behind the # is never sent to a server, so that no proxy logs it.
 */
export function createSignInFragments(
  { database, secrets, log }: Pick<Infrastructure, 'database' | 'secrets' | 'log'>,
  { auth, audit }: Pick<Services, 'auth' | 'audit'>,
): (userId: string) => Promise<string> {
  return async (userId) => {
    const code = await withSystem(database.pool, 'sign in by a link of this program', async (tx) => {
      const ctx = {
        requestId: newId(),
        log,
        client: { ip: '127.0.0.1', trusted: false, userAgent: null },
        arrivedAt: clock.monotonic(),
        withSystem: <T>(_why: string, work: (inner: typeof tx) => PromiseLike<T>) =>
          Promise.resolve(work(tx)),
      };
      const { caller, refreshToken } = await auth.openForProvider(tx, ctx, userId, { mfa: false });
      return newExchangeCode(tx, secrets, { sessionId: caller.sessionId, refreshToken }, LINK_MINUTES);
    });
    audit.committed();
    return `#ssoCode=${code}`;
  };
}
