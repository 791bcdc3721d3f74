import type { Context, DetachedContext } from '../../platform/context.ts';
import { namingConflict } from '../../platform/db/database-errors.ts';
import { AppError, invalid, noFields, notFound } from '../../platform/errors.ts';
import { toPage } from '../../platform/http/pagination.ts';
import { newId } from '../../platform/ids.ts';
import { patchRecorded } from '../../platform/db/base-model.ts';
import { omitUndefined } from '../../platform/omit-undefined.ts';
import { sealContext, type Encryptor, SealBrokenError } from '../../platform/secrets/sealed.ts';
import { assertManageable, assertOrganizationAccess, lockOrganization } from '../organizations/index.ts';
import { updateReadiness } from './readiness.ts';
import { accessibleConnections, accessibleConnectionsByName, hasConfigs } from './cloud-backup.queries.ts';
import { CloudConnection, SEALED_CONNECTION_SECRET } from './cloud-backup.model.ts';
import type { ConnectionPatch, ConnectionQuery, NewConnection } from './connection.schema.ts';
import type { Db } from '../../platform/db/pool.ts';
import { withTenant } from '../../platform/db/transaction.ts';
import type { GuardedFetch } from '../../platform/outbound/guarded-fetch.ts';
import { organizationScope } from '../groups/index.ts';
import {
  type AccessTokens,
  type AppCredentials,
  GraphError,
  Postponed,
  GraphClient,
  Throttle,
} from './graph-client.ts';
import { z } from 'zod';
import { clock } from '../../clock.ts';
import { shortened } from '../../protocol/index.ts';

export const CONNECTIONS_MAX = 20;
const NAME_TAKEN = 'Another cloud connection of this organization has this name.';

const contextOf = (id: string) =>
  sealContext(SEALED_CONNECTION_SECRET.table, SEALED_CONNECTION_SECRET.column, id);

export const secretOf = (encryptor: Encryptor, { id, sealedSecret }: CloudConnection): string | undefined =>
  sealedSecret === null ? undefined : encryptor.open(sealedSecret, contextOf(id)).text;

export async function listConnections(ctx: Context, query: ConnectionQuery) {
  if (query.orgId !== undefined) await assertOrganizationAccess(ctx, query.orgId);
  const { results, total } = await accessibleConnectionsByName(ctx)
    .where(omitUndefined({ org_id: query.orgId }))
    .page(query.page - 1, query.limit);
  return toPage(query, { results: results.map(toConnectionResponse), total });
}

export async function findConnection(
  ctx: Pick<Context, 'tx' | 'caller'>,
  id: string,
): Promise<CloudConnection> {
  const connection = await accessibleConnections(ctx).findById(id);
  if (connection === undefined) throw notFound('Cloud connection');
  return connection;
}

export async function createConnection(ctx: Context, body: NewConnection, encryptor: Encryptor) {
  await assertOrganizationAccess(ctx, body.orgId);
  await assertManageable(ctx, body.orgId);
  if (body.provider !== 'microsoft_365') {
    throw new AppError('provider_unsupported', 'Google Workspace cannot be backed up yet.');
  }
  const { clientSecret, authMethod: _, ...input } = body;
  await assertBelowLimit(ctx.tx, input.orgId);
  const id = newId();
  const connection = await namingConflict(
    CloudConnection.query(ctx.tx).insertAndFetch({
      ...input,
      id,
      authMethod: 'manual',
      sealedSecret: encryptor.seal(clientSecret, contextOf(id)),
      createdBy: ctx.caller.userId,
    }),
    'c2c_connections_name',
    'body.displayName',
    NAME_TAKEN,
  );
  return toConnectionResponse(connection);
}

export async function assertBelowLimit(tx: Context['tx'], orgId: string): Promise<void> {
  await lockOrganization(tx, orgId);
  const present = await CloudConnection.query(tx).where('org_id', orgId).resultSize();
  if (present >= CONNECTIONS_MAX) {
    throw new AppError('limit_reached', `Cloud connection limit reached (${CONNECTIONS_MAX}).`);
  }
}

/** The directory cannot change: existing backups belong to its users. */
export async function updateConnection(
  ctx: Context,
  id: string,
  patch: ConnectionPatch,
  encryptor: Encryptor,
) {
  const connection = await findConnection(ctx, id);
  await assertManageable(ctx, connection.orgId);
  const changedFields = Object.keys(omitUndefined(patch));
  if (changedFields.length === 0) throw noFields();
  const { clientSecret, ...rest } = patch;
  if (connection.authMethod === 'platform_app' && (clientSecret ?? rest.clientId) !== undefined) {
    throw invalid('body', 'must not name an app: this connection uses the app of this server');
  }
  if (rest.clientId !== undefined && clientSecret === undefined) {
    throw invalid('body.clientSecret', 'must be given with clientId');
  }
  const updated = await namingConflict(
    patchRecorded(ctx, connection, {
      ...omitUndefined(rest),
      ...(clientSecret === undefined
        ? {}
        : {
            sealedSecret: encryptor.seal(clientSecret, contextOf(id)),
            // Microsoft's verdict on the previous secret does not apply to this one.
            lastErrorCode: null,
            lastErrorMessage: null,
          }),
    }),
    'c2c_connections_name',
    'body.displayName',
    NAME_TAKEN,
  );
  await updateReadiness(ctx.tx, updated.orgId);
  return Object.assign(toConnectionResponse(updated), { changedFields });
}

export async function deleteConnection(ctx: Context, id: string) {
  const connection = await findConnection(ctx, id);
  await assertManageable(ctx, connection.orgId);
  if (await hasConfigs(ctx.tx, connection)) {
    throw new AppError(
      'conflict',
      'Configurations use this connection, or their items are still being removed.',
    );
  }
  await connection.$query(ctx.tx).delete();
  return { success: true as const, connection };
}

export function toConnectionResponse({
  lastErrorCode,
  lastErrorMessage,
  clientId,
  ...shown
}: CloudConnection) {
  return {
    ...shown,
    clientId: clientId === null ? null : `${clientId.slice(0, 8)}…`,
    status: lastErrorCode === null ? ('active' as const) : ('failing' as const),
    error: lastErrorCode === null ? null : { code: lastErrorCode, message: lastErrorMessage ?? '' },
  };
}

/** Dependencies of requests to Microsoft 365. */
export interface CloudParts {
  cloudFetch: Pick<GuardedFetch, 'fetch'>;
  cloudFiles: Pick<GuardedFetch, 'open' | 'fetch'>;
  cloudTokens: AccessTokens;
  cloudBackup: {
    platformApp: { clientId: string; secret: string } | undefined;
    graphUrl: string;
    loginUrl: string;
  };
  secrets: Encryptor;
}

interface Opening {
  db: Db;
  signal: AbortSignal;
  /** The longest wait in a worker if Microsoft requests one. */
  patienceMs: number;
}

/** Microsoft Graph with the app of a connection. */
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

const PATIENCE_MS = 5000;
const LIMIT_MS = 25_000;

/** Signs in and reads one user, which every kind of backup requires. */
export async function testConnection(
  ctx: DetachedContext,
  id: string,
  { cloud, db, signal }: { cloud: CloudParts; db: Db; signal: AbortSignal },
) {
  const connection = await ctx.withTenant(async (inside) => {
    const found = await findConnection(inside, id);
    await assertManageable(inside, found.orgId);
    return found;
  });
  const check = await tryOut(async () => {
    const limited = AbortSignal.any([signal, clock.timeoutSignal(LIMIT_MS)]);
    const graph = openGraph(cloud, connection, { db, signal: limited, patienceMs: PATIENCE_MS });
    await graph.json('/users?$select=id&$top=1', z.object({ value: z.array(z.unknown()) }));
  });
  await ctx.withTenant(async (inside) => {
    await (await findConnection(inside, id)).$query(inside.tx).patch({
      lastErrorCode: check.code ?? null,
      lastErrorMessage: check.message === undefined ? null : shortened(check.message, 1000),
    });
    await updateReadiness(inside.tx, connection.orgId);
  });
  const status = check.ok ? ('success' as const) : ('failed' as const);
  const { orgId, displayName } = connection;
  return { id, orgId, displayName, status, checks: [check], checkedAt: clock.date().toISOString() };
}

async function tryOut(
  work: () => Promise<void>,
): Promise<{ name: string; ok: boolean; code?: string; message?: string }> {
  const name = 'graph';
  try {
    await work();
    return { name, ok: true };
  } catch (error) {
    if (error instanceof GraphError) return { name, ok: false, code: error.code, message: error.message };
    if (error instanceof Postponed) return { name, ok: false, code: 'THROTTLED', message: error.message };
    if (error instanceof DOMException && error.name === 'TimeoutError') {
      return { name, ok: false, code: 'GRAPH_TIMED_OUT', message: 'Microsoft Graph did not answer in time.' };
    }
    throw error;
  }
}
