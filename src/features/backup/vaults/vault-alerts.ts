import type { Tx } from '../../../platform/db/transaction.ts';
import type { NewAlert } from '../../alerts/index.ts';
import { VAULT_BEHIND } from '../core/alert-kinds.ts';
import { LAG, LAGS_TOO_LONG } from './lag.ts';

interface Behind {
  orgId: string;
  deviceId: string;
  deviceName: string;
  vaults: {
    id: string;
    name: string;
    snapshots: number;
    hours: number;
    isUnsound: boolean;
    code: string | null;
  }[];
}

const IS_UNSOUND = `coalesce((select w.status <> 'passed' from backup_verifications w
  where w.repository_id = v.repository_id and w.finished_at is not null and w.error_code is null
  order by w.finished_at desc limit 1), false)`;

/** The alerts about vaults that are due: one for each device, because a device has one of a kind. */
export async function vaultAlerts(tx: Tx): Promise<NewAlert[]> {
  const { rows } = await tx.raw<{ rows: Behind[] }>(
    `select v.org_id as "orgId", v.device_id as "deviceId",
      coalesce(nullif(d.display_name, ''), d.hostname) as "deviceName",
      jsonb_agg(jsonb_build_object('id', v.id, 'name', v.name, 'snapshots', lag.snapshots,
        'hours', floor(extract(epoch from now() - lag.since) / 3600), 'isUnsound', ${IS_UNSOUND},
        'code', (select y.error_code from backup_vault_syncs y where y.vault_id = v.id
          order by y.created_at desc, y.id desc limit 1)) order by v.name, v.id) as vaults
    from backup_vaults v join devices d on d.id = v.device_id and d.condition <> 'decommissioned' cross join ${LAG}
    where ${LAGS_TOO_LONG} or v.is_active and ${IS_UNSOUND}
    group by 1, 2, 3`,
  );
  return rows.map(({ orgId, deviceId, deviceName, vaults }) => ({
    orgId,
    deviceId,
    kind: VAULT_BEHIND,
    severity: vaults.some(({ isUnsound }) => isUnsound) ? 'critical' : 'high',
    title: `${deviceName}: a vault does not have what it should have`,
    message: vaults.map(sentenceAbout).join('\n'),
    details: { vaultIds: vaults.map(({ id }) => id), code: vaults[0]?.code ?? null },
  }));
}

function sentenceAbout({ name, snapshots, hours, isUnsound, code }: Behind['vaults'][number]): string {
  if (isUnsound) return `${name}: its last verification found errors.`;
  const why = code === null ? '' : ` The last sync has failed: ${code}.`;
  return `${name}: ${snapshots} snapshots are missing, the oldest for ${hours} hours.${why}`;
}
