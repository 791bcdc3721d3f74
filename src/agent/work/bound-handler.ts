import { AgentErrorCode, COMMANDS, type CommandFrame, type CommandType } from '../../protocol/index.ts';
import { AgentError } from '../core/agent-error.ts';
import { firstCharacters } from '../core/plain-text.ts';

/** The handler of a frame's type, with the frame's payload checked and given to it. Throws `AgentError`. */
export function boundHandler<Context>(
  handlers: object,
  { type, payload }: Pick<CommandFrame, 'type' | 'payload'>,
): (context: Context) => Promise<unknown> {
  const handler = Object.hasOwn(handlers, type) ? handlers[type as keyof typeof handlers] : undefined;
  if (!isKnown(type) || handler === undefined) {
    throw new AgentError(AgentErrorCode.capabilityMissing, `This agent cannot do "${type}".`);
  }
  const parsed = COMMANDS[type].payload.safeParse(payload);
  if (!parsed.success) {
    const issue = parsed.error.issues[0];
    throw new AgentError(
      AgentErrorCode.invalidPayload,
      `${issue?.path.join('.') || 'payload'}: ${issue?.message ?? 'not valid'}`,
    );
  }
  // The table pairs each type with the schema that has just parsed its payload.
  const answer = handler as (payload: unknown, context: Context) => Promise<unknown>;
  return (context) => answer(parsed.data, context);
}

export function describeError(error: unknown): { code: string; message: string } {
  const message = firstCharacters(error instanceof Error ? error.message : String(error), 2000);
  return { code: error instanceof AgentError ? error.code : AgentErrorCode.failed, message };
}

function isKnown(type: string): type is CommandType {
  return Object.hasOwn(COMMANDS, type);
}
