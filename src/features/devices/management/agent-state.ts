import type { Tx } from '../../../platform/db/transaction.ts';
import type { AgentState } from '../device.schema.ts';

/**
 * Notes what the watchdog of a device says about its agent. The version of the watchdog is noted here as well, because an
 * agent that does not run cannot report it.
 * @returns whether it is news
 */
export async function recordAgentState(
  tx: Tx,
  deviceId: string,
  { state, message, watchdogVersion }: Pick<AgentState, 'state' | 'message'> & { watchdogVersion: string },
): Promise<boolean> {
  const { rowCount } = await tx.raw<{ rowCount: number }>(
    `update devices set agent_state = :state, agent_state_message = :message, watchdog_version = :watchdogVersion,
      agent_state_since = case when agent_state is distinct from :state then now() else agent_state_since end,
      updated_at = now()
    where id = :deviceId and (agent_state, agent_state_message, watchdog_version)
      is distinct from (:state, :message, :watchdogVersion)`,
    { deviceId, state, message, watchdogVersion },
  );
  return rowCount > 0;
}
