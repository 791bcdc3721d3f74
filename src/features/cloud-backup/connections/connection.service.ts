import type { Context } from '../../../platform/context.ts';
import { namingConflict } from '../../../platform/db/database-errors.ts';
import { nameOrder } from '../../../platform/db/name-order.ts';
import { inTenant } from '../../../platform/db/tenant-filter.ts';
import { AppError, invalid, noFields, notFound } from '../../../platform/errors.ts';
import { toPage } from '../../../platform/http/pagination.ts';
import { newId } from '../../../platform/ids.ts';
import { patchRecorded } from '../../../platform/db/patch-recorded.ts';
import { omitUndefined } from '../../../platform/omit-undefined.ts';
import { sealContext, type Sealer } from '../../../platform/secrets/sealed.ts';
import { assertManageable, assertOrganizationAccess } from '../../organizations/index.ts';
import { followRuns } from '../care/follow-runs.ts';
import { CloudConnection, SEALED_CONNECTION_SECRET } from './connection.model.ts';
import type { ConnectionPatch, ConnectionQuery, NewConnection } from './connection.schema.ts';

export const CONNECTIONS_MAX = 20;
const NAME_TAKEN = 'Another cloud connection of this organization has this name.';

const contextOf = (id: string) =>
  sealContext(SEALED_CONNECTION_SECRET.table, SEALED_CONNECTION_SECRET.column, id);

export const secretOf = (sealer: Sealer, { id, sealedSecret }: CloudConnection): string | undefined =>
  sealedSecret === null ? undefined : sealer.open(sealedSecret, contextOf(id)).text;

const accessible = (ctx: Pick<Context, 'tx' | 'caller'>) =>
  CloudConnection.query(ctx.tx).whereRaw(inTenant(ctx.caller, 'c2c_connections.org_id'));

export async function listConnections(ctx: Context, query: ConnectionQuery) {
  if (query.orgId !== undefined) await assertOrganizationAccess(ctx, query.orgId);
  const { results, total } = await accessible(ctx)
    .where(omitUndefined({ org_id: query.orgId }))
    .orderByRaw(`${nameOrder('display_name')}, id`)
    .page(query.page - 1, query.limit);
  return toPage(query, { results: results.map(shownConnection), total });
}

export async function findConnection(
  ctx: Pick<Context, 'tx' | 'caller'>,
  id: string,
): Promise<CloudConnection> {
  const connection = await accessible(ctx).findById(id);
  if (connection === undefined) throw notFound('Cloud connection');
  return connection;
}

export async function createConnection(ctx: Context, body: NewConnection, sealer: Sealer) {
  await assertOrganizationAccess(ctx, body.orgId);
  await assertManageable(ctx, body.orgId);
  if (body.provider !== 'microsoft_365') {
    throw new AppError('provider_unsupported', 'Google Workspace cannot be backed up yet.');
  }
  const { clientSecret, authMethod: _, ...input } = body;
  await assertRoom(ctx.tx, input.orgId);
  const id = newId();
  const connection = await namingConflict(
    CloudConnection.query(ctx.tx).insertAndFetch({
      ...input,
      id,
      authMethod: 'manual',
      sealedSecret: sealer.seal(clientSecret, contextOf(id)),
      createdBy: ctx.caller.userId,
    }),
    'c2c_connections_name',
    'body.displayName',
    NAME_TAKEN,
  );
  return shownConnection(connection);
}

/** Serialized by a lock on the organization, so that the limit holds. */
export async function assertRoom(tx: Context['tx'], orgId: string): Promise<void> {
  await tx.raw('select from organizations where id = ? for no key update', [orgId]);
  const present = await CloudConnection.query(tx).where('org_id', orgId).resultSize();
  if (present >= CONNECTIONS_MAX) {
    throw new AppError('limit_reached', `Cloud connection limit reached (${CONNECTIONS_MAX}).`);
  }
}

/** The directory stays: what was backed up is of its users. */
export async function updateConnection(ctx: Context, id: string, patch: ConnectionPatch, sealer: Sealer) {
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
            sealedSecret: sealer.seal(clientSecret, contextOf(id)),
            // What Microsoft has said of the secret before does not hold for this one.
            lastErrorCode: null,
            lastErrorMessage: null,
          }),
    }),
    'c2c_connections_name',
    'body.displayName',
    NAME_TAKEN,
  );
  await followRuns(ctx.tx, updated.orgId);
  return Object.assign(shownConnection(updated), { changedFields });
}

export async function deleteConnection(ctx: Context, id: string) {
  const connection = await findConnection(ctx, id);
  await assertManageable(ctx, connection.orgId);
  const { rows } = await ctx.tx.raw<{ rows: object[] }>(
    'select from c2c_configs where org_id = ? and connection_id = ? limit 1',
    [connection.orgId, id],
  );
  if (rows.length > 0) {
    throw new AppError(
      'conflict',
      'Configurations use this connection, or their items are still being removed.',
    );
  }
  await connection.$query(ctx.tx).delete();
  return { success: true as const, connection };
}

export function shownConnection({ lastErrorCode, lastErrorMessage, clientId, ...shown }: CloudConnection) {
  return {
    ...shown,
    clientId: clientId === null ? null : `${clientId.slice(0, 8)}…`,
    status: lastErrorCode === null ? ('active' as const) : ('failing' as const),
    error: lastErrorCode === null ? null : { code: lastErrorCode, message: lastErrorMessage ?? '' },
  };
}
