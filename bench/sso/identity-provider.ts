import { startOidcProvider } from '../../test/support/oidc-provider.ts';

/** The identity provider of the benchmark, in a process of its own. It says that it is ready, and is then told for whom. */

export interface Request {
  people: number;
  redirectUri: string;
}

export interface Answer {
  issuer: string;
  clientId: string;
  clientSecret: string;
}

const idp = await startOidcProvider();

process.on('message', ({ people, redirectUri }: Request) => {
  for (let n = 0; n < people; n++) {
    const email = `person-${n}@example.com`;
    idp.accounts.set(`person-${n}`, { claims: { email, email_verified: true, name: `Person ${n}` } });
  }
  const answer: Answer = { issuer: idp.issuer, ...idp.addClient(redirectUri) };
  process.send?.(answer);
});
process.send?.('ready');
