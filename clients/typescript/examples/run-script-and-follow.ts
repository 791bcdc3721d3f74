import { connectLive, createClient, newIdempotencyKey } from '../src/index.ts';

/** Runs a script on a device and shows its output as it comes: `npx tsx run-script-and-follow.ts <device id> 'df -h'`. */

const { MUSTER_URL: server = 'http://127.0.0.1:3000', MUSTER_KEY: token = '' } = process.env;
const [id = '', content = 'uptime'] = process.argv.slice(2);
const muster = createClient({ server, token });
const live = await connectLive({ server, token });

try {
  // With the key, the request is sent again where the server is busy, and still makes one command.
  const command = await muster.call(
    'POST /devices/{id}/commands',
    {
      params: { id },
      body: { type: 'script.run', payload: { language: 'bash', content, timeoutSeconds: 60 } },
    },
    { idempotencyKey: newIdempotencyKey() },
  );
  for await (const news of live.followJob(command.id)) {
    if (news.type === 'state') console.error(news.job.state);
    else for (const { text } of news.rows) process.stdout.write(text);
  }
  const { status, output, error } = await muster.call('GET /commands/{id}', { params: { id: command.id } });
  console.error(error?.message ?? JSON.stringify(output));
  if (status !== 'succeeded') process.exitCode = 1;
} finally {
  live.close();
}
