import { expect } from 'chai';
import { readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import pg from 'pg';
import { ConfigError, environmentExample, readConfig, type Config } from '../../../src/config.ts';

const OWNER = 'postgres://owner:pw@db.example:5433/muster?sslmode=disable';
const JWT_SECRET = 'a-secret-of-more-than-thirty-two-characters';
const SECRET_ENCRYPTION_KEY = 'a-key-of-more-than-thirty-two-characters';
const SECRETS = { JWT_SECRET, SECRET_ENCRYPTION_KEY };

const read = (environment: Record<string, string>) => readConfig({ environment });
function faults(environment: Record<string, string>): string[] {
  try {
    read(environment);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return error.message.split('\n').slice(1);
  }
  return [];
}
const appUrl = ({ database }: Config) => (database.kind === 'external' ? database.appUrl : undefined);

describe('the configuration', () => {
  it('needs nothing: the default is the embedded database on loopback', () => {
    expect(read({})).to.deep.include({
      port: 3000,
      host: '127.0.0.1',
      database: { kind: 'embedded' },
      autoMigrate: true,
      heartbeatSeconds: 60,
      jwtSecret: undefined,
      secureCookies: false,
    });
  });

  it('takes the address for people from the first variable of three, and cookies go by its scheme', () => {
    const of = (env: Record<string, string>) => {
      const { publicUrl, secureCookies } = read(env) as Config;
      return [publicUrl, secureCookies];
    };
    const urls = {
      PUBLIC_URL: 'https://one.example.com',
      PUBLIC_APP_URL: 'http://two.example.com',
      DASHBOARD_URL: 'https://three.example.com',
    };
    const { PUBLIC_URL: _one, ...second } = urls;
    expect(of(urls)).to.deep.equal(['https://one.example.com', true]);
    expect(of(second)).to.deep.equal(['http://two.example.com', false]);
    expect(of({ DASHBOARD_URL: urls.DASHBOARD_URL })).to.deep.equal(['https://three.example.com', true]);
    expect(of({ ...second, NODE_ENV: 'production' }), 'a browser drops Secure cookies on http').to.deep.equal(
      ['http://two.example.com', false],
    );
    expect(of({ NODE_ENV: 'production' })).to.deep.equal([undefined, true]);
    expect(of({})).to.deep.equal([undefined, false]);
    expect(faults({ PUBLIC_APP_URL: 'two', DASHBOARD_URL: 'ftp://three' })).to.have.lengthOf(2);
  });

  it('cannot be changed once it is read', () => {
    const config = read({}) as Config;
    expect(() => (config.port = 1)).to.throw(TypeError);
  });

  it('wants the serving role named twice if one address leads past a pooler', () => {
    const url = 'postgres://svc_app:secret@127.0.0.1:5432/muster';
    expect(faults({ DATABASE_URL_SESSION: url }).join()).to.contain('set DATABASE_URL_APP as well');
    expect(
      read({ DATABASE_URL_APP: url.replace('5432', '6432'), DATABASE_URL_SESSION: url, ...SECRETS }),
    ).to.deep.include({
      database: {
        kind: 'external',
        ownerUrl: undefined,
        appUrl: url.replace('5432', '6432'),
        sessionUrl: url,
      },
    });
  });

  it('reports all faults at once, each with its variable and a good value', () => {
    const found = faults({
      PORT: 'eighty',
      HOST: 'http://0.0.0.0',
      DATABASE_POOL_SIZE: '0',
      AUTO_MIGRATE: 'perhaps',
      DATABASE_URL: 'mysql://root@localhost/muster',
      JWT_SECRET: 'short',
      SVC_ADMIN_EMAIL: 'nobody',
      SVC_ADMIN_PASSWORD: 'short',
      PUBLIC_URL: 'ftp://example.com',
      LOG_LEVEL: 'loud',
      METRICS_TOKEN: 'short',
      AGENT_HEARTBEAT_SECONDS: '1.5',
      NODE_ID: 'a node',
      REDIS_URL: 'http://127.0.0.1:6379',
      SMTP_URL: 'mail.example.com',
      SMTP_FROM: 'nobody',
    });
    const good: Record<string, string> = {
      PORT: 'such as 3000',
      HOST: 'such as 127.0.0.1',
      DATABASE_POOL_SIZE: 'such as 10',
      AUTO_MIGRATE: 'true',
      DATABASE_URL: 'postgres://user:password@127.0.0.1:5432/muster',
      JWT_SECRET: 'openssl rand -base64 48',
      SVC_ADMIN_EMAIL: 'such as admin@example.com',
      SVC_ADMIN_PASSWORD: 'at least 8 characters',
      PUBLIC_URL: 'https://',
      LOG_LEVEL: 'debug, info, warn, error or silent',
      METRICS_TOKEN: 'at least 16 characters',
      AGENT_HEARTBEAT_SECONDS: 'such as 60',
      NODE_ID: '1 to 64 letters',
      REDIS_URL: 'redis://127.0.0.1:6379',
      SMTP_URL: 'smtp://user:password@mail.example.com:587',
      SMTP_FROM: 'Muster <muster@example.com>',
    };
    for (const [name, value] of Object.entries(good)) {
      const own = found.filter((line) => line.startsWith(`  - ${name} `));
      expect(own, name).to.have.lengthOf(1);
      expect(own[0], name).to.include(value);
    }
    // Conflicts between variables are reported together with them.
    expect(found.join('\n')).to.include(
      'set one of DATABASE_URL_APP, SVC_APP_DB_PASSWORD or POSTGRES_PASSWORD',
    );
    expect(found.join('\n')).to.include('SECRET_ENCRYPTION_KEY must be set');
    expect(found).to.have.lengthOf(Object.keys(good).length + 2);
  });

  it('reports conflicts between variables together with an invalid value of another', () => {
    const found = faults({ PORT: 'eighty', DATABASE_URL: OWNER, SVC_ADMIN_EMAIL: 'a@example.com' }).join(
      '\n',
    );
    expect(found).to.include('PORT must be').and.include('JWT_SECRET must be set when DATABASE_URL is');
    expect(found).to.include('SVC_ADMIN_EMAIL and SVC_ADMIN_PASSWORD go together');
    expect(found).to.include('set one of DATABASE_URL_APP, SVC_APP_DB_PASSWORD or POSTGRES_PASSWORD');
  });

  it('takes only plain whole numbers within their bounds', () => {
    for (const port of ['-1', '65536', '80.5', '0x50', '1e3', ' ', 'NaN']) {
      expect(faults({ PORT: port }), port).to.have.lengthOf(1);
    }
    expect([read({ PORT: '0' }).port, read({ PORT: '65535' }).port]).to.deep.equal([0, 65_535]);
  });

  it('takes addresses and host names to listen on, and nothing else', () => {
    for (const host of ['0.0.0.0', '::', '::1', 'localhost', 'muster.internal.example']) {
      expect(read({ HOST: host }).host).to.equal(host);
    }
    for (const host of ['http://localhost', 'localhost:3000', '0.0.0.0/0', 'a b', '*', '[::1]']) {
      expect(faults({ HOST: host }), host).to.have.lengthOf(1);
    }
  });

  it('reads switches in every usual spelling', () => {
    for (const yes of ['1', 'true', 'TRUE', 'yes', 'on', ' true ']) {
      expect(read({ AUTO_MIGRATE: yes }).autoMigrate, yes).to.equal(true);
    }
    for (const no of ['0', 'false', 'No', 'off']) {
      expect(read({ AUTO_MIGRATE: no }).autoMigrate, no).to.equal(false);
    }
  });

  it('takes an empty value for an absent one', () => {
    expect(
      read({ PORT: '', DATABASE_URL: '', JWT_SECRET: '', SVC_ADMIN_EMAIL: '', AUTO_MIGRATE: '' }),
    ).to.deep.equal(read({}));
  });

  it('lets the environment win over defaults that a program gives', () => {
    const defaults = { PORT: '3999', HOST: '0.0.0.0' };
    const config = readConfig({ environment: { PORT: '4000', HOST: '' }, defaults });
    expect([config.port, config.host]).to.deep.equal([4000, '0.0.0.0']);
  });

  describe('of a database of your own', () => {
    it('is refused without any of the three ways to sign svc_app in', () => {
      const found = faults({ DATABASE_URL: OWNER, ...SECRETS });
      expect(found).to.have.lengthOf(1);
      expect(found[0]).to.include('DATABASE_URL_APP').and.include('svc_app');
    });

    it('takes DATABASE_URL_APP before SVC_APP_DB_PASSWORD before POSTGRES_PASSWORD', () => {
      const given: Record<string, string> = { DATABASE_URL: OWNER, ...SECRETS, POSTGRES_PASSWORD: 'third' };
      expect(appUrl(read(given))).to.equal('postgres://svc_app:third@db.example:5433/muster?sslmode=disable');
      given['SVC_APP_DB_PASSWORD'] = 'second';
      expect(appUrl(read(given))).to.equal(
        'postgres://svc_app:second@db.example:5433/muster?sslmode=disable',
      );
      given['DATABASE_URL_APP'] = 'postgresql://other:first@elsewhere/muster';
      expect(appUrl(read(given))).to.equal('postgresql://other:first@elsewhere/muster');
    });

    it('serves without the owner if the operator migrates by other means', () => {
      const config = read({ DATABASE_URL_APP: 'postgres://svc_app:pw@db/muster', ...SECRETS });
      expect(config.database).to.deep.equal({
        kind: 'external',
        ownerUrl: undefined,
        appUrl: 'postgres://svc_app:pw@db/muster',
      });
    });

    it('needs secrets of its own to sign tokens and to seal secrets with', () => {
      for (const url of ['DATABASE_URL', 'DATABASE_URL_APP']) {
        const found = faults({ [url]: OWNER, POSTGRES_PASSWORD: 'pw' });
        expect(found, url).to.have.lengthOf(2);
        expect(found[0], url).to.include('JWT_SECRET').and.include('openssl rand -base64 48');
        expect(found[1], url).to.include('SECRET_ENCRYPTION_KEY must be set').and.include('openssl rand');
      }
    });

    it('takes APP_ENCRYPTION_KEY if SECRET_ENCRYPTION_KEY is absent, and old keys separated by commas', () => {
      const app = 'another-key-of-more-than-thirty-two-characters';
      expect(read({ APP_ENCRYPTION_KEY: app }).encryptionKey).to.equal(app);
      expect(read({ APP_ENCRYPTION_KEY: app, SECRET_ENCRYPTION_KEY }).encryptionKey).to.equal(
        SECRET_ENCRYPTION_KEY,
      );
      expect(read({}).oldEncryptionKeys).to.deep.equal([]);
      expect(read({ SECRET_ENCRYPTION_KEYS_OLD: 'one, two,,' }).oldEncryptionKeys).to.deep.equal([
        'one',
        'two',
      ]);
      expect(faults({ SECRET_ENCRYPTION_KEY: `${app},${app}` })[0]).to.include('must not contain a comma');
      expect(faults({ SECRET_ENCRYPTION_KEY: 'short' })[0]).to.include('SECRET_ENCRYPTION_KEY must have');
    });

    it('keeps all servers that the address of the owner names', () => {
      const url = appUrl(
        read({
          DATABASE_URL: 'postgres://owner:pw@one:5433,two/muster?target_session_attrs=read-write',
          ...SECRETS,
          SVC_APP_DB_PASSWORD: 'a,b',
        }),
      );
      expect(url).to.equal('postgres://svc_app:a%2Cb@one:5433,two/muster?target_session_attrs=read-write');
      expect(faults({ DATABASE_URL: 'postgres://one,two:x/muster', ...SECRETS })[0]).to.match(
        /DATABASE_URL must be a URL such as postgres:/,
      );
    });

    it('carries any password to the driver as it is', () => {
      for (const password of [`p@ss:w/rd?#[]%41&=+ ;'"\\`, 'ünïcödé✓', '%', '100%25', 'a b', '$%^{}|`~']) {
        const url = appUrl(read({ DATABASE_URL: OWNER, ...SECRETS, SVC_APP_DB_PASSWORD: password }));
        // The driver's own reading of it.
        const seen = new pg.Client({ connectionString: url });
        expect([seen.user, seen.password, seen.host, seen.database], password).to.deep.equal([
          'svc_app',
          password,
          'db.example',
          'muster',
        ]);
      }
    });
  });

  describe('from files', () => {
    let directory: string;
    before(async () => {
      directory = await mkdtemp(path.join(tmpdir(), 'muster-config-'));
    });
    after(() => rm(directory, { recursive: true }));

    it('takes a value from the file that X_FILE names, without its line end', async () => {
      const file = path.join(directory, 'jwt');
      await writeFile(file, `${JWT_SECRET}\n`);
      expect(read({ JWT_SECRET_FILE: file }).jwtSecret).to.equal(JWT_SECRET);
      expect(read({ JWT_SECRET_FILE: '' }).jwtSecret).to.equal(undefined);
      const direct = 'a-secret-that-stands-in-the-environment-itself';
      expect(read({ JWT_SECRET_FILE: file, JWT_SECRET: direct }).jwtSecret).to.equal(direct);
    });

    it('takes the whole of a database from files', async () => {
      const files = { DATABASE_URL: OWNER, ...SECRETS, SVC_APP_DB_PASSWORD: 'from a file' };
      const environment: Record<string, string> = {};
      for (const [name, text] of Object.entries(files)) {
        environment[`${name}_FILE`] = path.join(directory, name);
        await writeFile(path.join(directory, name), text);
      }
      expect(appUrl(read(environment))).to.include('svc_app:from%20a%20file@db.example:5433/muster');
    });

    it('refuses a file that it cannot read, by name, with everything else that is wrong', () => {
      const missing = path.join(directory, 'missing');
      const found = faults({ JWT_SECRET_FILE: missing, METRICS_TOKEN_FILE: directory, PORT: 'x' });
      expect(found).to.have.lengthOf(3);
      expect(found[0]).to.include('METRICS_TOKEN_FILE').and.include(directory);
      expect(found[1]).to.include('JWT_SECRET_FILE').and.include(missing);
      expect(found[2]).to.include('PORT');
    });

    it('says what is wrong with what the file holds, under the name of the variable', async () => {
      const file = path.join(directory, 'empty');
      await writeFile(file, '');
      expect(faults({ JWT_SECRET_FILE: file }).join()).to.include(
        'JWT_SECRET must have at least 32 characters',
      );
    });
  });

  it('never shows a secret among its faults', () => {
    const found = faults({ DATABASE_URL: 'mysql://root:hunter2@db/muster', JWT_SECRET: 'hunter2' }).join(
      '\n',
    );
    expect(found).to.include('DATABASE_URL').and.not.include('hunter2');
  });

  it('takes an archive whole or not at all', () => {
    const AUDIT_ARCHIVE_BUCKET = 'muster-audit';
    expect(read({}).auditArchive).to.equal(undefined);
    expect(faults({ AUDIT_ARCHIVE_BUCKET })).to.deep.equal([
      '  - AUDIT_ARCHIVE_ACCESS_KEY_ID must be set when AUDIT_ARCHIVE_BUCKET is',
      '  - AUDIT_ARCHIVE_SECRET_ACCESS_KEY must be set when AUDIT_ARCHIVE_BUCKET is',
    ]);
    const keys = { AUDIT_ARCHIVE_ACCESS_KEY_ID: 'id', AUDIT_ARCHIVE_SECRET_ACCESS_KEY: 'secret' };
    expect(faults({ AUDIT_ARCHIVE_BUCKET: 'No/Bucket', ...keys }).join()).to.include('AUDIT_ARCHIVE_BUCKET');
    const region = { AUDIT_ARCHIVE_REGION: 'eu-central-1' };
    expect(read({ AUDIT_ARCHIVE_BUCKET, ...keys, ...region }).auditArchive).to.deep.equal({
      bucket: 'muster-audit',
      region: 'eu-central-1',
      endpoint: 'https://s3.eu-central-1.amazonaws.com',
      accessKeyId: 'id',
      secretAccessKey: 'secret',
      pathStyle: true,
    });
  });

  it('is what .env.example says, each line in force being a default', () => {
    const example = readFileSync(new URL('../../../.env.example', import.meta.url), 'utf8');
    expect(example.trim()).to.equal(environmentExample().trim());
    const uncommented = Object.fromEntries(
      [...example.matchAll(/^#([A-Z_]+)=(.*)$/gm)].map(([, name, value]) => [name, value]),
    ) as Record<string, string>;
    expect(read(uncommented)).to.deep.equal(read({}));
  });
});
