import type { SignInOrder, SignInTimes } from './load-process.ts';

/** A separate process that signs people in at a fixed rate while something else is measured. */

const state = { isGoing: false };
let answers: number[] = [];
let refused = 0;
let done: Promise<void> = Promise.resolve();

async function signIn({ url, people, password }: SignInOrder, turn: number): Promise<void> {
  const email = people[turn % people.length];
  const startedAt = performance.now();
  const status = await fetch(`${url}/api/v1/auth/login`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ email, password }),
  }).then(
    async (answer) => {
      await answer.arrayBuffer();
      return answer.status;
    },
    // There was no connection within the client's timeout; it counts with that duration.
    () => 0,
  );
  answers.push(performance.now() - startedAt);
  if (status !== 200) refused += 1;
}

async function keepSigningIn(order: SignInOrder): Promise<void> {
  const under: Promise<void>[] = [];
  const startedAt = performance.now();
  for (let turn = 0; state.isGoing; turn++) {
    const due = startedAt + (turn * 1000) / order.perSecond;
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, due - performance.now())));
    under.push(signIn(order, turn));
  }
  await Promise.all(under);
}

process.on('message', (message: { number: number; command: string; ask: SignInOrder }) => {
  if (message.command === 'start') {
    state.isGoing = true;
    answers = [];
    refused = 0;
    done = keepSigningIn(message.ask);
    done.catch(() => {});
    process.send?.({ number: message.number, answer: {} });
    return;
  }
  state.isGoing = false;
  done.then(
    () => {
      const times: SignInTimes = { times: answers, refused };
      process.send?.({ number: message.number, answer: times });
    },
    (error: unknown) => process.send?.({ number: message.number, error: String(error) }),
  );
});
process.once('disconnect', () => process.exit(0));
process.send?.('ready');
