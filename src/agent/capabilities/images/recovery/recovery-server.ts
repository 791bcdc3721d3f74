import {
  RecoveryAccess,
  type RecoveryMachine,
  type RecoveryProgress,
  type RecoveryResult,
} from '../../../../protocol/index.ts';
import {
  EXIT,
  post,
  type ServerAccess,
  type ServerAnswer,
  ServerCallError,
} from '../../../core/server/server-call.ts';

/** What a machine that is recovered says to its server. It has nothing but its token. */
export class RecoveryServer {
  readonly #access: ServerAccess;
  readonly #token: string;
  readonly #signal: AbortSignal;
  #session: string | undefined;

  /** @param session  of an earlier start with the same token */
  constructor(access: ServerAccess, { token, session, signal }: RecoverySecrets) {
    this.#access = access;
    this.#token = token;
    this.#session = session;
    this.#signal = signal;
  }

  /** The secret of this recovery, once it was started. */
  get session(): string | undefined {
    return this.#session;
  }

  /** Throws `ServerCallError` with the sentence of the server. */
  async start(machine: RecoveryMachine): Promise<RecoveryAccess> {
    const answer = await post(this.#access, '/backup/bmr/authenticate', {
      body: {
        token: this.#token,
        ...(this.#session === undefined ? {} : { session: this.#session }),
        machine,
      },
      signal: this.#signal,
    });
    if (answer.status !== 200) throw refused(answer);
    const access = RecoveryAccess.safeParse(answer.body);
    if (!access.success) throw new ServerCallError(EXIT.refused, 'The server has answered something else.');
    this.#session = access.data.session ?? this.#session;
    return access.data;
  }

  /** Whether it arrived does not matter: the next report says more. */
  async report(progress: RecoveryProgress): Promise<void> {
    await post(this.#access, '/backup/bmr/progress', {
      body: this.#body({ progress }),
      signal: this.#signal,
    }).catch(() => undefined);
  }

  /** Also where the recovery was interrupted. Throws where the server has not taken it. */
  async end(result: RecoveryResult): Promise<void> {
    const answer = await post(this.#access, '/backup/bmr/complete', { body: this.#body({ result }) });
    if (answer.status !== 200) throw refused(answer);
  }

  #body(about: object) {
    return { token: this.#token, session: this.#session ?? '', ...about };
  }
}

const refused = ({ refusal = 'The server refuses.' }: Pick<ServerAnswer, 'refusal'>) =>
  new ServerCallError(EXIT.refused, refusal);

interface RecoverySecrets {
  token: string;
  session: string | undefined;
  signal: AbortSignal;
}
