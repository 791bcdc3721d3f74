/**
 * The lanes that durable commands run in. Each has places of its own, so that a long command of one lane never delays
 * the commands of another. The agent starts at most this many commands of a lane at once, and the server keeps at most
 * this many of a lane at one device.
 *
 * - `interactive`: a technician waits for it, and it ends within about a minute.
 * - `work`: it runs as long as its own time limit allows, such as a script.
 * - `bulk`: it may run for hours, such as a backup.
 */
export const LANE_LIMITS = { interactive: 2, work: 2, bulk: 1 } as const;

/**
 * Among the capabilities of an agent: it runs commands in lanes. An agent without it is sent at most two commands at
 * once, whatever their lanes.
 */
export const LANES_CAPABILITY = 'commands.lanes';

export type Lane = keyof typeof LANE_LIMITS;
export const LANES = Object.keys(LANE_LIMITS) as Lane[];
