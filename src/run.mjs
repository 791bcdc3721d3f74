// Starts a TypeScript entry of ours on any supported Node, without a build step.
// Plain JavaScript with nothing imported before the check, so that a Node that is too old says so in one line.
const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
if (major < 20 || (major === 20 && minor < 19)) {
  console.error(`Muster needs Node 20.19 or newer; this is ${process.versions.node}.`);
  process.exit(1);
}
const entry = process.argv[2];
if (entry === undefined) {
  console.error('usage: node src/run.mjs <entry.ts> [arguments]');
  process.exit(2);
}
const { pathToFileURL } = await import('node:url');
const { register } = await import('tsx/esm/api');
register();
process.argv.splice(1, 2, entry);
await import(pathToFileURL(entry).href);
