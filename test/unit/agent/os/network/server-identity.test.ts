import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import tls from 'node:tls';
import { expect } from 'chai';
import sinon from 'sinon';
import { checkServerIdentity } from '../../../../../src/agent/os/network/proxy-rules.ts';

const FOLDER = path.join(import.meta.dirname, '../../../../support/certificates');

describe('whether a certificate is for a server', () => {
  afterEach(() => sinon.restore());

  const certificate = () =>
    new X509Certificate(readFileSync(path.join(FOLDER, 'certificate.pem'))).toLegacyObject();
  const codeOf = (host: string) => {
    const error = checkServerIdentity(host, certificate());
    return error === undefined ? 'accepted' : 'code' in error ? error.code : error.message;
  };

  it('is said of names and addresses in it, and of no others', () => {
    for (const host of ['localhost', 'idp.test', '127.0.0.1', '::1', '0:0:0:0:0:0:0:1']) {
      expect(codeOf(host), host).to.equal('accepted');
    }
    for (const host of ['example.com', '127.0.0.2', '::2', 'fe80::1']) {
      expect(codeOf(host), host).to.equal('ERR_TLS_CERT_ALTNAME_INVALID');
    }
  });

  it('is said of an IPv6 address even if Node takes it for a name', () => {
    // As Node 22.23 does, which is in the packaged agent.
    sinon.stub(tls, 'checkServerIdentity').returns(new Error('not a name of the certificate'));
    expect(codeOf('::1')).to.equal('accepted');
    expect(codeOf('::2')).to.equal('not a name of the certificate');
  });
});
