import { raw } from 'objection';
import { clock } from '../../clock.ts';
import type { DeviceHub } from '../../hub/index.ts';
import type { DeviceSummary, EnrollRequest, EnrollResponse, ReleaseKey } from '../../protocol/index.ts';
import { HUB_PATH } from '../../protocol/index.ts';
import type { PublicContext } from '../../platform/context.ts';
import type { AuditTrail } from '../../platform/http/audit.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { AppError } from '../../platform/errors.ts';
import { newId } from '../../platform/ids.ts';
import { isWellFormed, tokenHash } from '../../platform/secrets/tokens.ts';
import {
  assertDeviceQuota,
  DeviceModel,
  type DeviceRow,
  issueAgentToken,
  selectDevices,
  toSummary,
} from '../devices/index.ts';
import { firstSiteOf } from '../sites/index.ts';
import { EnrollmentKey } from './enrollment-key.model.ts';
import type { EnrollLimits } from './enroll-limits.ts';

type TakenKey = Pick<EnrollmentKey, 'id' | 'orgId' | 'siteId' | 'partnerId'>;

const IS_EXPIRED = raw('coalesce(enrollment_keys.expires_at <= now(), false) as is_expired');
const IS_TENANT_ACTIVE = raw(`(
  organization.deleted_at is null and organization.status in ('active', 'trial')
  and "organization:partner".deleted_at is null and "organization:partner".status = 'active'
) as is_tenant_active`);

const KEY_FAULT = {
  unknown: 'The enrollment key is not known.',
  revoked: 'The enrollment key has been revoked.',
  expired: 'The enrollment key has expired.',
  exhausted: 'The enrollment key has reached its usage limit.',
};

export interface EnrollmentSettings {
  hub: DeviceHub;
  audit: AuditTrail;
  /** Where agents reach this server, without a slash at the end. */
  baseUrl: () => string;
  heartbeatSeconds: number;
  /** The keys that sign releases, which the new device trusts. */
  releaseKeys: (tx: Tx) => Promise<ReleaseKey[]>;
  forgetTokens: (deviceIds: readonly string[]) => void;
  enrollLimits: EnrollLimits;
}

/** Enrolls a device with an enrollment key, and returns its token. The use of the key and the device are committed together. */
export async function enroll(
  ctx: PublicContext,
  request: EnrollRequest,
  settings: EnrollmentSettings,
): Promise<EnrollResponse> {
  const { key, device, token, isNew, releaseKeys } = await settings.enrollLimits.limited(ctx.client, () =>
    tradeKey(ctx, request, settings),
  );

  settings.audit.committed();
  settings.forgetTokens([device.id]);
  if (isNew) settings.hub.deviceEntered(device, key.partnerId);
  // It may have moved to another site, or returned to service.
  else settings.hub.devicesMoved([device.id]);
  ctx.log.info({ deviceId: device.id, orgId: device.orgId }, 'device.enrolled');
  return {
    agentId: device.id,
    deviceId: device.id,
    orgId: device.orgId,
    siteId: device.siteId,
    token,
    config: {
      heartbeatSeconds: settings.heartbeatSeconds,
      hubUrl: `${settings.baseUrl()}${HUB_PATH}`,
      releaseKeys,
    },
  };
}

/** Counts the use of the key, stores the device and issues its token, in one transaction. */
async function tradeKey(
  ctx: PublicContext,
  request: EnrollRequest,
  { audit, releaseKeys }: EnrollmentSettings,
) {
  if (!isWellFormed('enrollmentKey', request.enrollmentKey)) {
    throw new AppError('unauthenticated', KEY_FAULT.unknown);
  }
  return ctx.withSystem('enroll a device, whose tenant only the key knows', async (tx) => {
    // Before the enrollment key is locked, for which other machines wait.
    const trusted = await releaseKeys(tx);
    const key = await takeKey(tx, request.enrollmentKey);
    const known = await findMachine(tx, key.orgId, request.machineId);
    if (known?.condition === undefined || known.condition === 'decommissioned') {
      await assertDeviceQuota(tx, key.orgId);
    }
    const deviceId = known?.id ?? newId();
    await saveDevice(tx, { id: deviceId, isNew: known === undefined }, key, request);
    await EnrollmentKey.query(tx).findById(key.id).increment('usage_count', 1);
    const token = await issueAgentToken(tx, { id: deviceId, orgId: key.orgId });
    await audit.record(tx, {
      action: known === undefined ? 'device.create' : 'device.update',
      resourceType: 'device',
      resourceId: deviceId,
      resourceName: request.hostname,
      details: { enrollmentKeyId: key.id, ...(known === undefined ? {} : { enrolledAgain: true }) },
      actor: { kind: 'agent', deviceId, orgId: key.orgId, partnerId: key.partnerId },
      state: ctx,
    });
    const device = await readSummary(tx, deviceId);
    return { key, device, token, isNew: known === undefined, releaseKeys: trusted };
  });
}

/** Locks the key, so that two devices cannot both take its last use. Throws where it cannot be used. */
async function takeKey(tx: Tx, key: string): Promise<TakenKey> {
  // One statement: machines enroll by the hundreds, each in a transaction that holds the row of the key.
  const found = await EnrollmentKey.query(tx)
    .joinRelated('organization.partner')
    .findOne({ key_hash: tokenHash(key) })
    .select('enrollment_keys.*', 'organization.partner_id', IS_EXPIRED, IS_TENANT_ACTIVE)
    // Only the key is locked; the types of Objection do not let a join name what to lock.
    .onBuildKnex((query) => void query.forUpdate('enrollment_keys'));
  const fault = faultOf(found);
  if (found === undefined || fault !== undefined) {
    throw new AppError('unauthenticated', KEY_FAULT[fault ?? 'unknown']);
  }
  if (!found.isTenantActive) {
    throw new AppError('tenant_inactive', 'The organization of this enrollment key is not active.');
  }
  return found;
}

function faultOf(key: EnrollmentKey | undefined): keyof typeof KEY_FAULT | undefined {
  if (key === undefined) return 'unknown';
  if (key.revokedAt !== null) return 'revoked';
  if (key.isExpired) return 'expired';
  return key.maxUsage !== null && key.usageCount >= key.maxUsage ? 'exhausted' : undefined;
}

async function findMachine(
  tx: Tx,
  orgId: string,
  machineId: string | null | undefined,
): Promise<DeviceModel | undefined> {
  if (machineId === null || machineId === undefined) return undefined;
  return DeviceModel.query(tx).where({ org_id: orgId, machine_id: machineId }).forUpdate().first();
}

async function saveDevice(
  tx: Tx,
  device: { id: string; isNew: boolean },
  key: TakenKey,
  request: EnrollRequest,
): Promise<void> {
  const facts = {
    hostname: request.hostname,
    osType: request.osType,
    osVersion: request.osVersion,
    osBuild: request.osBuild ?? null,
    architecture: request.architecture,
    agentVersion: request.agentVersion,
    hardware: request.hardware ?? {},
    network: request.network ?? {},
    capabilities: request.capabilities ?? [],
    enrolledAt: clock.date(),
  };
  if (device.isNew) {
    await DeviceModel.query(tx).insert({
      ...facts,
      id: device.id,
      orgId: key.orgId,
      siteId: key.siteId ?? (await firstSiteOf(tx, key.orgId)),
      machineId: request.machineId ?? null,
    });
    return;
  }
  // The decisions about a known device stay, except that a decommissioned one returns to service.
  await DeviceModel.query(tx)
    .findById(device.id)
    .patch({
      ...facts,
      condition: raw(`case when condition = 'decommissioned' then 'normal' else condition end`),
      decommissionedFrom: null,
      ...(key.siteId === null ? {} : { siteId: key.siteId }),
    });
}

async function readSummary(tx: Tx, id: string): Promise<DeviceSummary> {
  const query = tx('devices as d').leftJoin('device_presence as p', 'p.device_id', 'd.id').where('d.id', id);
  const [row] = (await selectDevices(query)) as [DeviceRow];
  return toSummary(row);
}
