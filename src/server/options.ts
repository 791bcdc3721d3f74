import type { Config } from '../config.ts';
import type { RoundTiming } from '../features/alerts/index.ts';
import type { DispatcherTiming } from '../features/webhooks/index.ts';
import type { HubOptions } from '../hub/index.ts';
import type { DatabaseUrls } from '../platform/db/database.ts';
import type { Logger } from '../platform/logger.ts';
import type { SinglePage } from '../platform/http/single-page/single-page.ts';
import type { GuardedFetchOptions } from '../platform/outbound/guarded-fetch.ts';
import type { SecretKeys } from '../platform/secrets/sealed.ts';

export interface ServerOptions {
  config: Config;
  /** How to reach the database: the configured one, or the embedded one that `runServer` has started. */
  database: DatabaseUrls;
  jwtSecret: string;
  secretKeys: SecretKeys;
  log: Logger;
  /** Without it, only programs are served. */
  dashboard?: SinglePage;
  /** Shorter times and smaller limits, for tests. */
  hub?: Pick<
    HubOptions,
    | 'graceMs'
    | 'dashboardRecheckMs'
    | 'dashboardPatienceMs'
    | 'dashboardLimits'
    | 'admission'
    | 'liveFilters'
    | 'undeliveredWorkMs'
  >;
  alerts?: Partial<RoundTiming>;
  webhooks?: Partial<DispatcherTiming>;
  backupStore?: { idleMs?: number; reserveBytes?: number };
  /** For tests, whose identity providers and name servers are local. */
  outbound?: GuardedFetchOptions['testing'];
}
