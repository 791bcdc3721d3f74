import { newId } from '../../src/platform/ids.ts';
import type { Person } from '../support/factories.ts';
import type { TestApp } from '../support/test-app.ts';
import { asOwner } from '../support/test-postgres.ts';

/** Requests that end or pause work, for the test of what updates show in the audit trail. */

/** A request, and what its entry says of the change. */
export interface Update {
  path: string;
  body?: object;
  by?: Person;
  before: object;
  after: object;
  /** Other fields change with these. */
  hasMore?: true;
}

export const S3_DETAILS = {
  bucket: 'acme-backups',
  region: 'eu-central-1',
  accessKey: 'AKIA0',
  secretKey: 'hunter1',
};

/** Of a command that was not sent yet. */
const CANCELLED_COMMAND = {
  before: { status: 'queued', cancelRequestedAt: null },
  after: { status: 'cancelled' },
  hasMore: true,
} as const;

export interface WorkParts {
  app: TestApp;
  orgId: string;
  system: Person;
  /** Creates something by the interface, and returns its id. */
  make: (path: string, body: object) => Promise<string>;
  device: () => Promise<string>;
  key: () => Promise<string>;
  connect: (displayName: string) => Promise<string>;
}

/** @param parts  they are there when the first request is prepared */
export function workUpdates(parts: () => WorkParts): Record<string, () => Promise<Update>> {
  const insert = (table: string, columns: [string, unknown][]) =>
    asOwner(
      parts().app.database.ownerUrl,
      `insert into ${table} (${columns.map(([column]) => column).join(', ')})
      values (${columns.map((_column, at) => `$${at + 1}`).join(', ')})`,
      columns.map(([, value]) => value),
    );
  /** A row of work that runs nowhere: what it needs to run is not there. */
  const row = async (table: string, values: Record<string, unknown>): Promise<string> => {
    const id = newId();
    await insert(table, Object.entries({ id, ...values }));
    return id;
  };
  /** Work that its device has, or that is due at some later time, with its facts. */
  const work = async (
    {
      kind,
      step,
      deviceId,
      commandId,
    }: { kind: string; step: string; deviceId?: string; commandId?: string },
    table: string,
    facts: Record<string, unknown>,
  ): Promise<string> => {
    const id = newId();
    await asOwner(
      parts().app.database.ownerUrl,
      `insert into work (id, kind, partner_id, org_id, device_id, input, step, stage, command_id, due_at, deadline_at)
      select $1, $2, partner_id, id, $3, '{}', $4, case when $5::uuid is null then 'ready' else 'device' end, $5,
        now() + interval '1 day', now() + interval '2 days'
      from organizations where id = $6`,
      [id, kind, deviceId ?? null, step, commandId ?? null, parts().orgId],
    );
    await asOwner(parts().app.database.ownerUrl, 'update commands set work_id = $1 where id = $2', [
      id,
      commandId ?? null,
    ]);
    await insert(table, Object.entries({ id, org_id: parts().orgId, ...facts }));
    return id;
  };
  const command = async (deviceId: string) =>
    parts().make(`/devices/${deviceId}/commands`, { type: 'agent.refresh-inventory' });
  /** The only one that has not ended. */
  const rollout = async (state: string) => {
    await asOwner(
      parts().app.database.ownerUrl,
      `update agent_rollouts set state = 'aborted', ended_at = now() where ended_at is null`,
    );
    return row('agent_rollouts', {
      component: 'watchdog',
      version: '1.0.0',
      state,
      waves: JSON.stringify([{ percent: 100, soakMinutes: 60 }]),
      failed_percent: 5,
      silent_minutes: 60,
      min_devices: 1,
    });
  };

  const nextMonth = new Date(Date.now() + 30 * 86_400_000).toISOString();

  return {
    'POST /commands/:id/cancel': async () => ({
      path: `/commands/${await command(await parts().device())}/cancel`,
      ...CANCELLED_COMMAND,
    }),
    'POST /backup/restore/:id/cancel': async () => {
      const deviceId = await parts().device();
      const commandId = await command(deviceId);
      const of = { kind: 'restore', step: 'record', deviceId, commandId };
      const id = await work(of, 'backup_restore_facts', { overwrite: 'never' });
      return {
        path: `/backup/restore/${id}/cancel`,
        before: { status: 'pending' },
        after: { status: 'cancelled' },
      };
    },
    'POST /backup/restore/vm/:id/cancel': async () => {
      const deviceId = await parts().device();
      const id = await row('backup_vm_restores', {
        org_id: parts().orgId,
        device_id: deviceId,
        kind: 'as_vm',
        hypervisor: 'kvm',
        vm_name: 'web',
        spec: JSON.stringify({
          memoryMb: 1024,
          cpuCount: 1,
          diskSizeGb: null,
          format: 'qcow2',
          start: false,
          network: { type: 'none' },
          targetPath: null,
        }),
        operation: 'restore',
        command_id: await command(deviceId),
        holds_snapshot: false,
        expires_at: nextMonth,
      });
      return { path: `/backup/restore/vm/${id}/cancel`, ...CANCELLED_COMMAND };
    },
    'POST /backup/jobs/:id/cancel': async () => {
      const deviceId = await parts().device();
      const id = await work({ kind: 'backup', step: 'begin', deviceId }, 'backup_job_facts', {
        device_id: deviceId,
        type: 'manual',
      });
      return {
        path: `/backup/jobs/${id}/cancel`,
        before: { status: 'pending', cancelRequestedAt: null },
        after: { status: 'cancelled' },
        hasMore: true,
      };
    },
    'POST /backup/vault/:id/cancel': async () => {
      const [deviceId, encryptionKeyId] = [await parts().device(), await parts().key()];
      const configId = await parts().make('/backup/configs', {
        orgId: parts().orgId,
        name: `Of a sync ${newId()}`,
        provider: 'server',
        encryptionKeyId,
        sources: { paths: { linux: ['/home'] } },
      });
      const vaultId = await parts().make('/backup/vault', {
        name: 'With a sync',
        deviceId,
        configId,
        provider: 's3',
        details: S3_DETAILS,
      });
      await work({ kind: 'vault_sync', step: 'begin', deviceId }, 'backup_vault_sync_facts', {
        vault_id: vaultId,
        reason: 'manual',
      });
      return {
        path: `/backup/vault/${vaultId}/cancel`,
        before: { status: 'pending', cancelRequestedAt: null },
        after: { status: 'cancelled' },
        hasMore: true,
      };
    },
    'POST /c2c/jobs/:id/cancel': async () => {
      const configId = await parts().make('/c2c/configs', {
        name: `Of a run ${newId()}`,
        connectionId: await parts().connect('Of a run'),
        encryptionKeyId: await parts().key(),
        backupScope: ['mail'],
        allUsers: true,
      });
      const id = await work({ kind: 'cloud_backup', step: 'run' }, 'c2c_job_facts', {
        config_id: configId,
        type: 'backup',
        trigger: 'manual',
      });
      return {
        path: `/c2c/jobs/${id}/cancel`,
        before: { status: 'pending', cancelRequestedAt: null },
        after: { status: 'cancelled' },
        hasMore: true,
      };
    },
    'POST /dr/executions/:id/abort': async () => {
      const id = await row('dr_executions', {
        org_id: parts().orgId,
        plan_name: 'Harbour',
        execution_type: 'rehearsal',
        trigger: 'manual',
        status: 'running',
        groups: '[]',
        started_at: new Date(),
      });
      return {
        path: `/dr/executions/${id}/abort`,
        before: { abortRequestedAt: null },
        after: {},
        hasMore: true,
      };
    },
    'POST /agent-rollouts/:id/pause': async () => ({
      path: `/agent-rollouts/${await rollout('running')}/pause`,
      by: parts().system,
      before: { state: 'running' },
      after: { state: 'paused' },
    }),
    'POST /agent-rollouts/:id/resume': async () => ({
      path: `/agent-rollouts/${await rollout('paused')}/resume`,
      by: parts().system,
      before: { state: 'paused' },
      after: { state: 'running' },
    }),
    'POST /agent-rollouts/:id/abort': async () => ({
      path: `/agent-rollouts/${await rollout('running')}/abort`,
      by: parts().system,
      before: { state: 'running' },
      after: { state: 'aborted' },
    }),
  };
}
