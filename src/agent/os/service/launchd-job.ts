import { linkedProgram, serviceCommand, type ServicePlace } from './service-place.ts';
import { xmlText } from './xml-text.ts';

export const JOB_LABEL = 'com.muster.agent';

/** The job for launchd, which restarts the program and does not watch whether it answers. Pure. */
export function launchdJob(place: ServicePlace): string {
  const words = serviceCommand(place, linkedProgram(place)).map(
    (word) => `    <string>${xmlText(word)}</string>\n`,
  );
  return `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
  <key>Label</key>
  <string>${JOB_LABEL}</string>
  <key>ProgramArguments</key>
  <array>
${words.join('')}  </array>
  <key>RunAtLoad</key>
  <true/>
  <key>KeepAlive</key>
  <true/>
  <key>ThrottleInterval</key>
  <integer>10</integer>
  <key>ExitTimeOut</key>
  <integer>60</integer>
  <key>ProcessType</key>
  <string>Standard</string>
</dict>
</plist>
`;
}
