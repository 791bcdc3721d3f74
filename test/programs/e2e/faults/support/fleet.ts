import { randomUUID } from 'node:crypto';
import path from 'node:path';
import { writePrivateJson } from '../../../../../src/agent/os/files/private-file.ts';
import { newId } from '../../../../../src/platform/ids.ts';
import { newToken, tokenHash } from '../../../../../src/platform/secrets/tokens.ts';
import { asOwner } from '../../../../support/test-postgres.ts';
import type { Stage } from './stage.ts';

/** A device with its token, as enrollment would have left it. */
export interface FleetDevice {
  deviceId: string;
  siteId: string;
  token: string;
}

/** Devices that have enrolled: thousands by the ordinary way would be more than one address may. */
export async function insertFleet(ownerUrl: string, orgId: string, devices: number): Promise<FleetDevice[]> {
  const [site] = await asOwner<{ id: string }>(ownerUrl, 'select id from sites where org_id = $1', [orgId]);
  const siteId = site?.id ?? '';
  const fleet = Array.from({ length: devices }, () => ({
    deviceId: newId(),
    siteId,
    token: newToken('agent'),
  }));
  await asOwner(
    ownerUrl,
    `insert into devices (id, org_id, site_id, hostname, os_type, os_version, architecture, agent_version, capabilities, enrolled_at)
    select id, $1, $2, 'SIM-' || id, 'linux', 'Debian 12', 'x64', '1.0.0', '{script.run}', now() from unnest($3::uuid[]) as id`,
    [orgId, siteId, fleet.map(({ deviceId }) => deviceId)],
  );
  await asOwner(
    ownerUrl,
    `insert into agent_credentials (token_hash, device_id, org_id)
    select hash, id, $1 from unnest($2::uuid[], $3::text[]) as agent (id, hash)`,
    [orgId, fleet.map(({ deviceId }) => deviceId), fleet.map(({ token }) => tokenHash(token))],
  );
  return fleet;
}

/** The same as the file of a simulated fleet, which then does not enroll. */
export async function enrollFleet(
  options: Pick<Stage, 'database' | 'door' | 'orgId'> & { devices: number; dataDir: string },
): Promise<void> {
  const { database, door, orgId, devices, dataDir } = options;
  const fleet = await insertFleet(database.ownerUrl, orgId, devices);
  const enrolledAt = new Date().toISOString();
  const credentials = fleet.map((one) => ({
    ...one,
    server: door.url,
    orgId,
    heartbeatSeconds: 60,
    enrolledAt,
  }));
  await writePrivateJson(path.join(dataDir, 'fleet.json'), {
    fleetId: randomUUID(),
    devices: Object.fromEntries(credentials.entries()),
  });
}
