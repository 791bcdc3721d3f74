import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect } from 'chai';
import { saveCredentials } from '../../../../src/agent/core/settings.ts';
import { enroll } from '../../../../src/agent/core/enroll.ts';
import { hubPathOf, post } from '../../../../src/agent/core/server-call.ts';
import { isSecureServer, environmentNetwork } from '../../../../src/agent/os/network/network.ts';
import { agentCommand } from '../../../support/agent-program.ts';
import { temporaryFolder } from '../../../support/agent/collect.ts';

const ENROLLED = {
  agentId: '01890000-0000-7000-8000-000000000001',
  deviceId: '01890000-0000-7000-8000-000000000001',
  orgId: '01890000-0000-7000-8000-000000000002',
  siteId: '01890000-0000-7000-8000-000000000003',
  token: 'magt_1',
  config: { heartbeatSeconds: 60, hubUrl: '/hub' },
};
const network = environmentNetwork({});
const REQUEST = {
  enrollmentKey: 'k',
  hostname: 'h',
  osType: 'linux',
  osVersion: '1',
  architecture: 'x64',
  agentVersion: '1',
} as const;

describe('agent: the address of its server', () => {
  let folder: string;
  let remove: () => Promise<void>;
  const servers: Server[] = [];

  beforeEach(async () => {
    ({ folder, remove } = await temporaryFolder());
  });
  afterEach(async () => {
    for (const server of servers.splice(0)) server.close();
    await remove();
  });

  async function serve(answer: RequestListener): Promise<string> {
    const server = createServer(answer);
    servers.push(server);
    await new Promise<void>((resolve) => {
      server.listen(0, '127.0.0.1', resolve);
    });
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }
  const json =
    (status: number, body: unknown): RequestListener =>
    (_request, response) => {
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    };

  it('is secure with https, and with http only on this machine', () => {
    const secure = [
      'https://rmm.example.com',
      'http://localhost:3000',
      'http://127.0.0.1',
      'http://[::1]:80',
    ];
    expect(secure.filter((url) => !isSecureServer(url))).to.deep.equal([]);
    const insecure = [
      'http://rmm.example.com',
      'http://10.0.0.1:3000',
      'http://127.0.0.1.example.com',
      'http://localhost.example.com',
      'ws://localhost',
      'x',
    ];
    expect(insecure.filter((url) => isSecureServer(url))).to.deep.equal([]);
  });

  it('must be https to enroll at another machine, except with --insecure-http', async () => {
    const enrolling = ['enroll', '--server', 'http://192.0.2.1:1', '--key', 'k', '--data-dir', folder];
    const refused = await agentCommand(enrolling);
    expect([refused.code, refused.output.includes('must begin with https://')], refused.output).to.deep.equal(
      [4, true],
    );
    for (const server of ['https://me:pass@example.com', 'https://example.com/?a=1', 'ftp://example.com']) {
      const odd = await agentCommand(['enroll', '--server', server, '--key', 'k', '--data-dir', folder]);
      expect([odd.code, odd.output.includes('https://rmm.example.com')], odd.output).to.deep.equal([1, true]);
    }
  });

  it('prevents the agent from starting when it is insecure and that was not allowed', async () => {
    await saveCredentials(folder, {
      ...ENROLLED,
      server: 'http://192.0.2.1:1',
      heartbeatSeconds: 60,
      enrolledAt: new Date().toISOString(),
    });
    const { code, output } = await agentCommand(['run', '--data-dir', folder]);
    expect([code, output.includes('must begin with https://')], output).to.deep.equal([4, true]);
  });

  it('is never changed by a redirect, which would send the token elsewhere', async () => {
    const heard: string[] = [];
    const other = await serve((request, response) => {
      heard.push(request.url ?? '');
      json(201, ENROLLED)(request, response);
    });
    for (const status of [301, 302, 307, 308]) {
      const server = await serve((_request, response) => {
        response.writeHead(status, { location: `${other}/api/v1/agents/enroll` }).end();
      });
      const answer = await post({ server, network }, '/agents/enroll', { token: 't', body: REQUEST });
      expect(answer.refusal).to.contain('redirect').and.contain(other);
    }
    expect(heard).to.deep.equal([]);
  });

  it('accepts a path or an address of the same host for the hub, and ignores others', () => {
    const of = (hubUrl: string) => hubPathOf('https://rmm.example.com', hubUrl);
    expect(of('/hub')).to.deep.equal({ path: '/hub' });
    expect(of('/other/hub')).to.deep.equal({ path: '/other/hub' });
    expect(of('https://rmm.example.com/hub')).to.deep.equal({ path: '/hub' });
    expect(of('wss://rmm.example.com/hub')).to.deep.equal({ path: '/hub' });
    for (const elsewhere of [
      'http://rmm.example.com/hub',
      'ws://rmm.example.com/hub',
      'https://evil.example.com/hub',
      '//evil.example.com/hub',
      'https://rmm.example.com:8443/hub',
      'https://x@rmm.example.com/hub',
      'file:///hub',
    ]) {
      expect(of(elsewhere), elsewhere).to.deep.equal({ path: '/hub', ignored: elsewhere });
    }
  });

  it('stays that of the enrollment, whatever hub address the server sends', async () => {
    const warnings: string[] = [];
    const config = { heartbeatSeconds: 60, hubUrl: 'http://evil.example.com/hub' };
    const server = await serve(json(201, { ...ENROLLED, config }));
    const { credentials } = await enroll({ server, network }, REQUEST, (message) => warnings.push(message));
    expect([credentials.server, credentials.hubPath]).to.deep.equal([server, '/hub']);
    expect(warnings.join()).to.contain('evil.example.com');
  });

  it('limits the responses that it accepts', async () => {
    const long = await serve(json(403, { error: `\u001B[31m${'x'.repeat(5000)}` }));
    const { refusal } = await post({ server: long, network }, '/agents/enroll', { body: REQUEST });
    expect(refusal).to.have.length.below(600).and.not.to.contain('\u001B');
    const huge = await serve(json(200, { filler: 'x'.repeat(3_000_000) }));
    expect((await post({ server: huge, network }, '/x', {})).body).to.equal(undefined);
    const token = await serve(json(201, { ...ENROLLED, token: 'a\nb' }));
    const error: unknown = await enroll({ server: token, network }, REQUEST, () => {}).catch(
      (caught: unknown) => caught,
    );
    expect(String(error)).to.contain('is not an enrollment');
    const patient = await serve((_request, response) => {
      response.writeHead(503, { 'retry-after': '99999999999' }).end();
    });
    expect((await post({ server: patient, network }, '/x', {})).retryAfterMs).to.be.at.most(4 * 3_600_000);
  });
});
