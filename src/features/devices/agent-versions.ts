import type { Db } from '../../platform/db/pool.ts';
import { withSystem } from '../../platform/db/transaction.ts';

export interface AgentVersionCount {
  version: string;
  os: string;
  architecture: string;
  devices: number;
  /** How many of them wait for approval. */
  pending: number;
}

/** Which versions of the agent the whole fleet runs, for the operator. */
export function agentVersions(db: Db): Promise<AgentVersionCount[]> {
  return withSystem(db, 'count the versions of agents', async (tx) => {
    const { rows } = await tx.raw(
      `select agent_version as version, os_type as os, architecture, count(*)::int as devices,
        count(*) filter (where condition = 'pending')::int as pending
      from devices where condition <> 'decommissioned' group by 1, 2, 3 order by devices desc`,
    );
    return rows as AgentVersionCount[];
  });
}
