import { expect } from 'chai';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { socketHtml, socketMarkdown, fieldsOf } from '../../src/platform/http/socket-reference.ts';
import { COMMAND_TYPES, SOCKET_REFERENCE } from '../../src/protocol/index.ts';

describe('the reference of the socket messages', () => {
  const messages = SOCKET_REFERENCE.flatMap(({ namespace, messages }) =>
    messages.map((message) => ({ ...message, title: `${namespace} ${message.name}` })),
  );

  it('equals the committed page (npm run docs writes it)', async () => {
    const committed = await readFile(path.join(import.meta.dirname, '../../docs/socket-protocol.md'), 'utf8');
    expect(committed).to.equal(socketMarkdown(SOCKET_REFERENCE));
  });

  for (const { title, payload, example, ack, ackExample } of messages) {
    it(`${title} has examples that its schemas accept as they are`, () => {
      expect(payload.parse(example)).to.deep.equal(example);
      if (ack !== undefined) expect(ack.parse(ackExample)).to.deep.equal(ackExample);
    });
  }

  it('has a summary, a direction and a section for each message, and for each type of command', () => {
    const html = socketHtml(SOCKET_REFERENCE);
    const ids = [...html.matchAll(/<article id="([^"]+)"/g)].map(([, id]) => id);
    expect(ids).to.have.length(messages.length);
    expect(new Set(ids).size).to.equal(ids.length);
    expect(ids).to.include.members([...COMMAND_TYPES, 'heartbeat', 'command', 'devices:delta', 'job:output']);
    for (const { title, summary, direction } of messages) {
      expect([summary.endsWith('.'), direction.length > 0], title).to.deep.equal([true, true]);
    }
  });

  it('lists nested fields beneath their parents, with types, limits and meanings', () => {
    const heartbeat = messages.find(({ name }) => name === 'heartbeat')!;
    const fields = new Map(fieldsOf(heartbeat.payload, 'input').map((field) => [field.name, field]));
    expect(fields.get('agentVersion')).to.include({ type: 'string, 1–50 characters', isRequired: true });
    expect(fields.get('metrics')).to.include({ type: 'object', isRequired: false });
    expect(fields.get('metrics.cpuPercent')).to.include({
      type: 'number, 0–100',
      meaning: 'The average since the heartbeat before.',
    });
    const snapshot = messages.find(({ name }) => name === 'devices:subscribe')!.ack!;
    const names = fieldsOf(snapshot, 'output').map(({ name }) => name);
    expect(names).to.include.members([
      'ok',
      'devices',
      'devices[].presence.since',
      'devices[].metrics.cpuPercent',
    ]);
  });
});
