import type { Db } from '../../../platform/db/pool.ts';
import { withTenant } from '../../../platform/db/transaction.ts';
import type { GuardedFetch } from '../../../platform/outbound/guarded-fetch.ts';
import { SealBrokenError, type Sealer } from '../../../platform/secrets/sealed.ts';
import { organizationScope } from '../../groups/index.ts';
import type { AccessTokens, AppCredentials } from '../graph/access-tokens.ts';
import { GraphClient } from '../graph/graph-client.ts';
import { GraphError } from '../graph/graph-error.ts';
import { Throttle } from '../graph/throttle.ts';
import type { CloudConnection } from './connection.model.ts';
import { secretOf } from './connection.service.ts';

/** What it takes to speak to Microsoft 365. */
export interface CloudParts {
  cloudFetch: Pick<GuardedFetch, 'fetch'>;
  cloudFiles: Pick<GuardedFetch, 'open' | 'fetch'>;
  cloudTokens: AccessTokens;
  cloudBackup: {
    platformApp: { clientId: string; secret: string } | undefined;
    graphUrl: string;
    loginUrl: string;
  };
  secrets: Sealer;
}

interface Opening {
  db: Db;
  signal: AbortSignal;
  /** How long a worker waits at once where Microsoft asks it to. */
  patienceMs: number;
}

/** Microsoft Graph as the app of a connection. */
export function openGraph(
  parts: CloudParts,
  connection: CloudConnection,
  { db, signal, patienceMs }: Opening,
): GraphClient {
  const { id, orgId } = connection;
  return new GraphClient({
    fetch: parts.cloudFetch,
    files: parts.cloudFiles,
    graphUrl: parts.cloudBackup.graphUrl,
    tokens: parts.cloudTokens,
    credentials: credentialsOf(parts, connection),
    throttle: new Throttle({
      patienceMs,
      until: connection.throttledUntil,
      store: async (until) => {
        await withTenant(db, organizationScope(orgId), (tx) =>
          tx('c2c_connections').where({ id }).update({ throttled_until: until }),
        );
      },
    }),
    owner: `c2c ${id}`,
    signal,
  });
}

function credentialsOf({ cloudBackup, secrets }: CloudParts, connection: CloudConnection): AppCredentials {
  const { tenantId, clientId } = connection;
  if (connection.authMethod === 'platform_app') {
    if (cloudBackup.platformApp === undefined) {
      throw new GraphError('SECRET_UNAVAILABLE', 'This server has no app at Microsoft any more.');
    }
    return { tenantId, ...cloudBackup.platformApp };
  }
  try {
    return { tenantId, clientId: clientId ?? '', secret: secretOf(secrets, connection) ?? '' };
  } catch (error) {
    if (!(error instanceof SealBrokenError)) throw error;
    throw new GraphError(
      'SECRET_UNAVAILABLE',
      'The secret of the connection cannot be opened by this server.',
    );
  }
}
