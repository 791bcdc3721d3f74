import type { z } from 'zod';
import { BACKUP_COMMANDS } from './backup.ts';
import { DATABASE_COMMANDS, SQL_SERVER_COMMANDS, SHADOW_COPY_COMMANDS } from './databases.ts';
import {
  EVENT_LOG_COMMANDS,
  INVENTORY_COMMANDS,
  SCRIPT_COMMANDS,
  POWER_COMMANDS,
  UPDATE_COMMANDS,
  RECOVERY_COMMANDS,
  SYSTEM_TOOL_COMMANDS,
} from './device.ts';
import type { Lane, CommandShape, CommandTable } from './shape.ts';
import { MACHINE_COMMANDS } from './machines.ts';
import { VM_RESTORE_COMMANDS } from './vm-restores.ts';
import { TERMINAL_COMMANDS } from './terminals.ts';

export * from './snapshots.ts';
export * from './backup.ts';
export * from './databases.ts';
export * from './shape.ts';
export * from './machines.ts';
export { TerminalErrorCode } from './terminals.ts';
export * from './shape.ts';
export * from './device.ts';
export * from './device.ts';
export * from './shape.ts';
export * from './databases.ts';
export * from './databases.ts';
export * from './snapshots.ts';
export * from './vm-restores.ts';

/** All commands that the server can send to an agent. An agent lists the supported types in its handshake. */
export const COMMANDS = {
  ...EVENT_LOG_COMMANDS,
  ...SYSTEM_TOOL_COMMANDS,
  ...SCRIPT_COMMANDS,
  ...UPDATE_COMMANDS,
  ...INVENTORY_COMMANDS,
  ...POWER_COMMANDS,
  ...BACKUP_COMMANDS,
  ...SHADOW_COPY_COMMANDS,
  ...MACHINE_COMMANDS,
  ...SQL_SERVER_COMMANDS,
  ...VM_RESTORE_COMMANDS,
  ...DATABASE_COMMANDS,
  ...RECOVERY_COMMANDS,
  ...TERMINAL_COMMANDS,
} as const satisfies CommandTable;

export type CommandType = keyof typeof COMMANDS;
export const COMMAND_TYPES = Object.keys(COMMANDS) as CommandType[];
export type CommandPayload<T extends CommandType> = z.infer<(typeof COMMANDS)[T]['payload']>;
export type CommandOutput<T extends CommandType> = z.infer<(typeof COMMANDS)[T]['output']>;
export type CommandRow<T extends CommandType> = (typeof COMMANDS)[T] extends {
  row: infer R extends z.ZodType;
}
  ? z.infer<R>
  : never;

/** The row schema of a command that streams, `undefined` for any other. */
export function rowSchema(type: CommandType): z.ZodType | undefined {
  const shape: CommandShape = COMMANDS[type];
  return shape.row;
}

/** The commands that the server's ledger carries. */
export type DurableCommandType = {
  [T in CommandType]: (typeof COMMANDS)[T] extends { lane: Lane } ? T : never;
}[CommandType];

export function isDurable(type: string): type is DurableCommandType {
  return Object.hasOwn(COMMANDS, type) && 'lane' in COMMANDS[type as CommandType];
}
export const DURABLE_COMMAND_TYPES = COMMAND_TYPES.filter(isDurable);

/** The durable commands that users can send directly; the server makes the others for its own purposes. */
export type SendableCommandType = {
  [T in DurableCommandType]: (typeof COMMANDS)[T] extends { isOfServer: true } ? never : T;
}[DurableCommandType];
export const SENDABLE_COMMAND_TYPES = DURABLE_COMMAND_TYPES.filter(
  (type): type is SendableCommandType => !('isOfServer' in COMMANDS[type]),
);

/** The lane of a durable command. A type of another release, which is unknown here, runs as `work`. */
export function laneOf(type: string): Lane {
  return isDurable(type) ? COMMANDS[type].lane : 'work';
}
