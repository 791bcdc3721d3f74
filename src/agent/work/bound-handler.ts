import { AgentErrorCode, COMMANDS, type CommandFrame, type CommandType } from '../../protocol/index.ts';
import { AgentError } from '../core/agent-error.ts';

/** The handler of a frame's type, bound to the frame's checked payload. Throws `AgentError`. */
export function boundHandler<Context>(
  handlers: object,
  { type, payload }: Pick<CommandFrame, 'type' | 'payload'>,
): (context: Context) => Promise<unknown> {
  const handler = Object.hasOwn(handlers, type) ? handlers[type as keyof typeof handlers] : undefined;
  if (!isKnown(type) || handler === undefined) {
    throw new AgentError(AgentErrorCode.capabilityMissing, `This agent does not support "${type}".`);
  }
  const parsed = COMMANDS[type].payload.safeParse(payload);
  if (!parsed.success) {
    const issue = parsed.error.issues[0];
    throw new AgentError(
      AgentErrorCode.invalidPayload,
      `${issue?.path.join('.') || 'payload'}: ${issue?.message ?? 'not valid'}`,
    );
  }
  // The table of handlers pairs each type with the schema that has just parsed its payload.
  const { run } = (typeof handler === 'function' ? { run: handler } : handler) as {
    run: (payload: unknown, context: Context) => Promise<unknown>;
  };
  return (context) => run(parsed.data, context);
}

function isKnown(type: string): type is CommandType {
  return Object.hasOwn(COMMANDS, type);
}
