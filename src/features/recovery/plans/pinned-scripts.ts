import type { Tx } from '../../../platform/db/transaction.ts';
import type { CommandPayload } from '../../../protocol/index.ts';
import { scriptVersions } from '../../scripts/index.ts';
import type { PinnedScript, RecoveryGroup, RecoveryPlan } from './plan.model.ts';
import type { RecoveryDevice } from './target.schema.ts';

/**
 * Scripts of checks, as they were when they were chosen. A plan keeps each version once, by its SHA-256, because many
 * checks can run the same script. Contents do not leave the database before a device runs them.
 */

type PlanKey = Pick<RecoveryPlan, 'id' | 'orgId'>;

interface WithChecks {
  devices: readonly Pick<RecoveryDevice, 'checks'>[];
  /** Undefined: of an execution that began before versions were kept. */
  scripts: readonly PinnedScript[] | undefined;
}

export const scriptIdsOf = (devices: WithChecks['devices']): string[] => [
  ...new Set(
    devices.flatMap(({ checks }) =>
      checks.flatMap((check) => (check.type === 'script' ? [check.scriptId] : [])),
    ),
  ),
];

/** Keeps what scripts hold now. Those that do not exist, or do not run in the organization, are left out. */
export async function pinScripts(
  tx: Tx,
  { id, orgId }: PlanKey,
  scriptIds: readonly string[],
): Promise<PinnedScript[]> {
  if (scriptIds.length === 0) return [];
  // One statement, so that the version that is kept is the one that is named.
  return tx
    .with('versions', scriptVersions(tx, scriptIds, orgId))
    .with(
      'kept',
      tx.raw(
        `insert into dr_pinned_scripts (org_id, plan_id, sha256, language, content, timeout_seconds)
        select distinct on (sha256) ?::uuid, ?::uuid, sha256, language, content, timeout_seconds from versions
        on conflict do nothing`,
        [orgId, id],
      ),
    )
    .from('versions')
    .select('id as scriptId', 'name', 'sha256');
}

/** Of each group its scripts, in which those that have no version yet get the newest one. */
export async function completePins(
  tx: Tx,
  plan: PlanKey,
  groups: readonly WithChecks[],
): Promise<PinnedScript[][]> {
  const missing = groups.flatMap(({ devices, scripts = [] }) => without(scriptIdsOf(devices), scripts));
  const pinned = await pinScripts(tx, plan, [...new Set(missing)]);
  return groups.map(({ devices, scripts = [] }) => {
    const wanted = new Set(without(scriptIdsOf(devices), scripts));
    return [...scripts, ...pinned.filter(({ scriptId }) => wanted.has(scriptId))];
  });
}

const without = (ids: readonly string[], scripts: readonly PinnedScript[]): string[] =>
  ids.filter((id) => !scripts.some(({ scriptId }) => scriptId === id));

/** Removes what no group names, and no failover that stands. An execution that is open may need any of them. */
export async function removeUnusedPins(tx: Tx, { id, orgId }: PlanKey): Promise<void> {
  await tx.raw(
    `delete from dr_pinned_scripts p where p.org_id = :orgId and p.plan_id = :id
      and not exists (select from dr_executions x
        where x.org_id = p.org_id and x.plan_id = p.plan_id and x.finished_at is null)
      and not exists (select from dr_groups g cross join jsonb_array_elements(g.scripts) s
        where g.org_id = p.org_id and g.plan_id = p.plan_id and s ->> 'sha256' = p.sha256)
      and not exists (select from dr_executions x
        cross join jsonb_array_elements(x.groups) g cross join jsonb_array_elements(g -> 'scripts') s
        where x.org_id = p.org_id and x.plan_id = p.plan_id and s ->> 'sha256' = p.sha256
          and exists (select from dr_steps t where t.org_id = x.org_id and t.execution_id = x.id
            and t.failed_over_at is not null and t.failed_back_at is null))`,
    { id, orgId },
  );
}

type Runnable = Pick<CommandPayload<'script.run'>, 'language' | 'content' | 'timeoutSeconds'>;

const RUNNABLE = ['language', 'content', 'timeout_seconds as timeoutSeconds'] as const;

/** What a check runs. Undefined: it has no version, and the script does not exist any more. */
export async function scriptToRun(
  tx: Tx,
  { planId, orgId }: { planId: string | null; orgId: string },
  { scriptId, sha256 }: { scriptId: string; sha256: string | null },
): Promise<Runnable | undefined> {
  if (sha256 !== null) {
    return tx('dr_pinned_scripts')
      .where({ org_id: orgId, plan_id: planId, sha256 })
      .first<Runnable | undefined>(...RUNNABLE);
  }
  // The execution began on a server that kept no versions.
  return tx.from(scriptVersions(tx, [scriptId], orgId).as('s')).first<Runnable | undefined>(...RUNNABLE);
}

/** Groups with what is shown of their scripts: never what they hold, which takes `scripts:read`. */
export async function shownGroups(tx: Tx, orgId: string, groups: readonly RecoveryGroup[]) {
  const ids = [...new Set(groups.flatMap(({ devices }) => scriptIdsOf(devices)))];
  const rows =
    ids.length === 0
      ? []
      : await tx
          .from(scriptVersions(tx, ids, orgId).as('s'))
          .select<{ id: string; name: string; sha256: string }[]>('id', 'name', 'sha256');
  const current = new Map(rows.map((row) => [row.id, row]));
  return groups.map(({ scripts, ...group }) => ({
    ...group,
    scripts: scriptIdsOf(group.devices).map((scriptId) => {
      const pinned = scripts.find((one) => one.scriptId === scriptId);
      const now = current.get(scriptId);
      return {
        scriptId,
        scriptName: pinned?.name ?? now?.name ?? null,
        scriptSha256: pinned?.sha256 ?? null,
        scriptHasChanged: pinned === undefined || now === undefined ? null : pinned.sha256 !== now.sha256,
      };
    }),
  }));
}
