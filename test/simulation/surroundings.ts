import type { SimulatedDatabase } from './database.ts';
import type { SimulatedCommands } from './ledger.ts';
import type { SimulatedPresence } from './presence.ts';
import type { SimulatedRedis } from './redis.ts';

/** What all servers of a world share. */
export interface Surroundings {
  redis: SimulatedRedis;
  database: SimulatedDatabase;
  presence: SimulatedPresence;
  commands: SimulatedCommands;
  /** Whether a person looks at a device list on each server. */
  hasDashboards: boolean;
}
