import type { z } from 'zod';

/** One socket message as the reference shows it. */
export interface SocketMessage {
  name: string;
  direction: string;
  summary: string;
  payload: z.ZodType;
  example: unknown;
  /** The successful acknowledgement of the receiver. Absent if the message is not acknowledged. */
  ack?: z.ZodType;
  ackExample?: unknown;
}

export interface SocketNamespace {
  namespace: string;
  intro: string;
  messages: readonly SocketMessage[];
}

/** A message without its name, which is its key in a table. */
export type Described = Omit<SocketMessage, 'name' | 'direction'>;

export const inDirection = (direction: string, table: Readonly<Record<string, Described>>): SocketMessage[] =>
  Object.entries(table).map(([name, message]) => ({ name, direction, ...message }));

export const OK = { ok: true } as const;
