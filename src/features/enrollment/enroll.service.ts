import type { DeviceHub } from '../../hub/index.ts';
import type { DeviceSummary, EnrollRequest, EnrollResponse } from '../../protocol/index.ts';
import { HUB_PATH } from '../../protocol/index.ts';
import type { PublicContext } from '../../platform/context.ts';
import type { AuditTrail } from '../../platform/http/audit.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { AppError } from '../../platform/errors.ts';
import { newId } from '../../platform/ids.ts';
import { isWellFormed, tokenHash } from '../../platform/secrets/tokens.ts';
import {
  assertRoomForDevice,
  type DeviceRow,
  issueAgentToken,
  selectDevices,
  toSummary,
} from '../devices/index.ts';
import { firstSiteOf } from '../sites/index.ts';
import type { EnrollLimits } from './enroll-limits.ts';

interface KeyRow {
  id: string;
  org_id: string;
  site_id: string | null;
  partner_id: string;
  fault: 'revoked' | 'expired' | 'exhausted' | null;
  org_status: string;
  org_deleted: boolean;
  partner_status: string;
}

const KEY_FAULT = {
  unknown: 'The enrollment key is not known.',
  revoked: 'The enrollment key has been revoked.',
  expired: 'The enrollment key has expired.',
  exhausted: 'The enrollment key has been used as often as it may be.',
};

export interface EnrollmentSettings {
  hub: DeviceHub;
  audit: AuditTrail;
  /** Where agents reach this server, without a slash at the end. */
  baseUrl: () => string;
  heartbeatSeconds: number;
  forgetTokens: (deviceIds: readonly string[]) => void;
  enrollLimits: EnrollLimits;
}

/** Trades an enrollment key for a device and its token. The key's use and the device stand or fall together. */
export async function enroll(
  ctx: PublicContext,
  request: EnrollRequest,
  settings: EnrollmentSettings,
): Promise<EnrollResponse> {
  const { key, device, token, isNew } = await settings.enrollLimits.limited(ctx.client, () =>
    tradeKey(ctx, request, settings.audit),
  );

  settings.audit.committed();
  settings.forgetTokens([device.id]);
  if (isNew) settings.hub.deviceEntered(device, key.partner_id);
  // It may be at another site now, or back in service.
  else settings.hub.devicesMoved([device.id]);
  ctx.log.info({ deviceId: device.id, orgId: device.orgId }, 'device.enrolled');
  return {
    agentId: device.id,
    deviceId: device.id,
    orgId: device.orgId,
    siteId: device.siteId,
    token,
    config: { heartbeatSeconds: settings.heartbeatSeconds, hubUrl: `${settings.baseUrl()}${HUB_PATH}` },
  };
}

/** The key's use, the device and its token, in one transaction. */
async function tradeKey(ctx: PublicContext, request: EnrollRequest, audit: AuditTrail) {
  if (!isWellFormed('enrollmentKey', request.enrollmentKey)) {
    throw new AppError('unauthenticated', KEY_FAULT.unknown);
  }
  return ctx.withSystem('enroll a device, whose tenant only the key knows', async (tx) => {
    const key = await takeKey(tx, request.enrollmentKey);
    const known = await findMachine(tx, key.org_id, request.machineId);
    if (known?.condition === undefined || known.condition === 'decommissioned') {
      await assertRoomForDevice(tx, key.org_id);
    }
    const deviceId = known?.id ?? newId();
    await saveDevice(tx, { id: deviceId, isNew: known === undefined }, key, request);
    await tx('enrollment_keys').where({ id: key.id }).increment('usage_count', 1);
    const token = await issueAgentToken(tx, { id: deviceId, orgId: key.org_id });
    await audit.record(tx, {
      action: known === undefined ? 'device.create' : 'device.update',
      resourceType: 'device',
      resourceId: deviceId,
      resourceName: request.hostname,
      details: { enrollmentKeyId: key.id, ...(known === undefined ? {} : { enrolledAgain: true }) },
      actor: { kind: 'agent', deviceId, orgId: key.org_id, partnerId: key.partner_id },
      state: ctx,
    });
    return { key, device: await readSummary(tx, deviceId), token, isNew: known === undefined };
  });
}

/** The key's row, locked: two machines cannot both have its last use. */
async function takeKey(tx: Tx, key: string): Promise<KeyRow> {
  const { rows } = await tx.raw(
    `select k.id, k.org_id, k.site_id, o.partner_id, o.status as org_status, o.deleted_at is not null as org_deleted,
      case when p.deleted_at is not null then 'churned' else p.status end as partner_status,
      case when k.revoked_at is not null then 'revoked' when k.expires_at <= now() then 'expired'
        when k.usage_count >= k.max_usage then 'exhausted' end as fault
    from enrollment_keys k join organizations o on o.id = k.org_id join partners p on p.id = o.partner_id
    where k.key_hash = ? for update of k`,
    [tokenHash(key)],
  );
  const row = rows[0] as KeyRow | undefined;
  const fault = row === undefined ? 'unknown' : row.fault;
  if (row === undefined || fault !== null) {
    throw new AppError('unauthenticated', KEY_FAULT[fault ?? 'unknown']);
  }
  if (row.partner_status !== 'active' || row.org_deleted || !['active', 'trial'].includes(row.org_status)) {
    throw new AppError('tenant_inactive', 'The organization of this enrollment key is not active.');
  }
  return row;
}

async function findMachine(tx: Tx, orgId: string, machineId: string | null | undefined) {
  if (machineId === null || machineId === undefined) return undefined;
  return tx('devices')
    .where({ org_id: orgId, machine_id: machineId })
    .forUpdate()
    .first<{ id: string; condition: string } | undefined>('id', 'condition');
}

async function saveDevice(
  tx: Tx,
  device: { id: string; isNew: boolean },
  key: KeyRow,
  request: EnrollRequest,
): Promise<void> {
  const facts = {
    hostname: request.hostname,
    os_type: request.osType,
    os_version: request.osVersion,
    os_build: request.osBuild ?? null,
    architecture: request.architecture,
    agent_version: request.agentVersion,
    hardware: JSON.stringify(request.hardware ?? {}),
    network: JSON.stringify(request.network ?? {}),
    capabilities: request.capabilities ?? [],
    enrolled_at: new Date(),
    updated_at: new Date(),
  };
  if (device.isNew) {
    const siteId = key.site_id ?? (await firstSiteOf(tx, key.org_id));
    await tx('devices').insert({
      id: device.id,
      org_id: key.org_id,
      site_id: siteId,
      machine_id: request.machineId ?? null,
      ...facts,
    });
    return;
  }
  // The same machine again: what people have decided about it stays, but a decommissioned one is back in service.
  const condition = tx.raw(`case when condition = 'decommissioned' then 'normal' else condition end`);
  await tx('devices')
    .where({ id: device.id })
    .update({
      ...facts,
      condition,
      decommissioned_from: null,
      ...(key.site_id === null ? {} : { site_id: key.site_id }),
    });
}

async function readSummary(tx: Tx, id: string): Promise<DeviceSummary> {
  const query = tx('devices as d').leftJoin('device_presence as p', 'p.device_id', 'd.id').where('d.id', id);
  const [row] = (await selectDevices(query)) as [DeviceRow];
  return toSummary(row);
}
