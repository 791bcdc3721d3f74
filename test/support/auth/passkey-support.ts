import { PASSWORD, type Person } from '../factories.ts';
import type { TestApp } from '../test-app.ts';
import { SoftwareAuthenticator, type Untruth } from './software-authenticator.ts';

type Settings = ConstructorParameters<typeof SoftwareAuthenticator>[1];

/** Passkeys of people of a server, over its REST interface. */
export function passkeysOf(app: TestApp, headers: () => Record<string, string> = () => ({})) {
  const post = (path: string, body: object, token?: string) =>
    app.call('POST', path, { body, token, headers: headers() });

  const begin = async (token: string, body: object = {}) => {
    const answer = await post('/auth/passkeys/options', body, token);
    if (answer.status !== 200) throw new Error(`no registration: ${JSON.stringify(answer.body)}`);
    return answer.body;
  };
  const newAuthenticator = (settings?: Settings) => new SoftwareAuthenticator(app.url, settings);

  /** Registers a passkey; the first of a person by the password, further ones by a fresh second factor. */
  async function register(
    { token }: Pick<Person, 'token'>,
    {
      name = 'Laptop',
      authenticator = newAuthenticator(),
      body = { currentPassword: PASSWORD },
    }: { name?: string; authenticator?: SoftwareAuthenticator; body?: object } = {},
  ) {
    const credential = authenticator.create(await begin(token, body));
    const answer = await post('/auth/passkeys', { name, credential }, token);
    if (answer.status !== 201) throw new Error(`no passkey: ${JSON.stringify(answer.body)}`);
    return {
      authenticator,
      id: answer.body.passkey.id as string,
      recoveryCodes: answer.body.recoveryCodes as string[],
    };
  }

  const questionFor = async (path: string, body: object, token?: string) => {
    const answer = await post(path, body, token);
    if (answer.status !== 200) throw new Error(`no challenge: ${JSON.stringify(answer.body)}`);
    return answer.body;
  };
  const signInQuestion = () => questionFor('/auth/passkeys/sign-in-options', {});
  const factorQuestion = (tempToken: string) => questionFor('/auth/mfa/passkey-options', { tempToken });
  const stepUpQuestion = (token: string) => questionFor('/auth/mfa/step-up-options', {}, token);

  return {
    begin,
    newAuthenticator,
    register,
    signInQuestion,
    factorQuestion,
    stepUpQuestion,
    async signIn(authenticator: SoftwareAuthenticator, untruth: Untruth = {}) {
      return post('/auth/passkeys/sign-in', {
        credential: authenticator.get(await signInQuestion(), untruth),
      });
    },
    async verify(tempToken: string, authenticator: SoftwareAuthenticator, untruth: Untruth = {}) {
      const credential = authenticator.get(await factorQuestion(tempToken), untruth);
      return post('/auth/mfa/passkey-verify', { tempToken, credential });
    },
    async stepUp(token: string, authenticator: SoftwareAuthenticator, untruth: Untruth = {}) {
      const credential = authenticator.get(await stepUpQuestion(token), untruth);
      return post('/auth/mfa/step-up-passkey', { credential }, token);
    },
    /** The token of a sign-in whose password was correct. */
    async passwordOf({ email }: Person): Promise<string> {
      const { body } = await post('/auth/login', { email, password: PASSWORD });
      return body.tempToken;
    },
  };
}
