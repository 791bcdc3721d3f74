/** "2 devices", "1 group": those of which there is any. */
export function countedTargets(deviceIds: readonly string[], groupIds: readonly string[]): string[] {
  return [
    { count: deviceIds.length, one: 'device', several: 'devices' },
    { count: groupIds.length, one: 'group', several: 'groups' },
  ]
    .filter(({ count }) => count > 0)
    .map(({ count, one, several }) => `${count} ${count === 1 ? one : several}`);
}
