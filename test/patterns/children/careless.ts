/** A process that claims a key by looking first and writing then: two can do so at once. */
import { existsSync, writeFileSync } from "node:fs";
import path from "node:path";
import { serve } from "../serve.js";

let folder = "";

serve({
  open(order) {
    folder = order.folder;
  },

  claim({ keys }) {
    const won = (keys as string[]).filter((key) => {
      const file = path.join(folder, key);
      if (existsSync(file)) return false;
      writeFileSync(file, "");
      return true;
    });
    return { won };
  },
});
