import { expect } from 'chai';
import { Agent, get } from 'node:http';
import { CloseStack } from '../../src/platform/close-stack.ts';
import { recordingLog } from '../support/quiet-log.ts';
import { createTestApp } from '../support/test-app.ts';

describe('the end of a server', () => {
  it('does every step in the reverse order, whatever became of the one before, and then says what failed', async () => {
    const { log, lines } = recordingLog();
    const steps = new CloseStack(log);
    const done: string[] = [];
    steps.add('first', () => done.push('first'));
    steps.add('stuck', () => new Promise(() => {}), { withinMs: 20 });
    steps.add('throws', () => {
      throw new Error('it does not close');
    });
    steps.add('last', async () => done.push('last'));
    const failure = await steps.close().catch((error: unknown) => error);
    expect(done).to.deep.equal(['last', 'first']);
    expect(failure).to.be.instanceOf(AggregateError);
    const failed = lines.filter(({ event }) => event === 'server.close_step_failed');
    expect(failed.map(({ step }) => step)).to.deep.equal(['throws', 'stuck']);
  });

  it('does no step twice', async () => {
    const steps = new CloseStack(recordingLog().log);
    let count = 0;
    steps.add('once', () => (count += 1));
    await Promise.all([steps.close(), steps.close()]);
    expect(count).to.equal(1);
  });

  it('is not held up by clients that keep their connections and go on asking', async function () {
    this.timeout(30_000);
    const app = await createTestApp();
    const agent = new Agent({ keepAlive: true, maxSockets: 4 });
    const over = new AbortController();
    const told: (string | undefined)[] = [];
    const askAgain = () =>
      new Promise<void>((resolve) => {
        get(`${app.url}/health`, { agent }, (response) => {
          told.push(response.headers.connection);
          response.resume();
          response.on('close', resolve);
        }).on('error', () => resolve());
      });
    const clients = Array.from({ length: 4 }, async () => {
      while (!over.signal.aborted) {
        await askAgain();
        await new Promise((resolve) => setTimeout(resolve, 1));
      }
    });
    const startedAt = performance.now();
    await app.close();
    const tookMs = performance.now() - startedAt;
    over.abort();
    await Promise.all(clients);
    agent.destroy();
    expect(told).to.include('close');
    expect(tookMs).to.be.below(5000);
  });
});
